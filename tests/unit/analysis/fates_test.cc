#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "analysis/overview.h"
#include "analysis/timeline.h"
#include "fake/session_builder.h"

namespace smeltr::analysis {
namespace {

// A session of which what is older than `whole_from_ns` was cut.
class CutSession final : public EventSource {
 public:
  CutSession(std::string_view text, uint64_t whole_from_ns) : events_(text), whole_from_ns_(whole_from_ns) {}
  void ForEachBatch(event::Kind kind, const VisitBatch& visit) const override {
    events_.ForEachBatch(kind, visit);
  }
  TimeRange range() const override { return events_.range(); }
  uint64_t whole_from_ns() const override { return whole_from_ns_; }

 private:
  fake::SessionBuilder events_;
  uint64_t whole_from_ns_;
};

std::vector<uint64_t> InFlight(const EventSource& source) {
  std::vector<uint64_t> ids;
  for (const InFlightRow& row : ComputeOverview(source).in_flight) ids.push_back(row.cb_id);
  return ids;
}

// A killed program: its hook had not read what had completed, but its last submission knew of it.
constexpr std::string_view kKilled =
    "10 queue 1\n20 commit 1 depth=1\n30 commit 2 depth=2\n40 commit 3 depth=2\n50 commit 4 depth=2\n"
    "60 done 1 gpu=21..29\n";

TEST(Fates, OnlyWhatTheLastSubmissionFoundInFlightIs) {
  const fake::SessionBuilder session(kKilled);
  EXPECT_EQ(InFlight(session), (std::vector<uint64_t>{3, 4}));
  const Timeline timeline = Timeline::Build(session);
  EXPECT_EQ(timeline.counts().committed, 4U);
  EXPECT_EQ(timeline.counts().completed, 1U);
  EXPECT_EQ(timeline.counts().untimed, 1U);
  EXPECT_EQ(timeline.counts().incomplete, 2U);
  EXPECT_EQ(timeline.cbs()[timeline.FindCb(100, event::CbId{2})].fate, CbFate::kUntimed);
}

TEST(Fates, WithoutADepthAllMayBeInFlight) {
  const fake::SessionBuilder session("10 queue 1\n20 commit 1\n30 commit 2\n");
  EXPECT_EQ(InFlight(session), (std::vector<uint64_t>{1, 2}));
}

TEST(Fates, ADepthBeyondWhatIsKnownSaysNothing) {
  const fake::SessionBuilder session("10 queue 1\n20 commit 1 depth=9\n30 commit 2 depth=9\n");
  EXPECT_EQ(InFlight(session), (std::vector<uint64_t>{1, 2}));
}

TEST(Fates, EachQueueSpeaksForItself) {
  const fake::SessionBuilder session(
      "10 queue 1\n10 queue 2\n20 commit 1 q=1 depth=1\n25 commit 2 q=2 depth=1\n30 commit 3 q=1 depth=1\n");
  EXPECT_EQ(InFlight(session), (std::vector<uint64_t>{2, 3}));
}

TEST(Fates, EventsComeInAnyOrder) {
  const fake::SessionBuilder session(
      "10 queue 1\n50 commit 4 depth=1\n20 commit 1 depth=1\n40 commit 3 depth=3\n30 commit 2 depth=2\n");
  EXPECT_EQ(InFlight(session), (std::vector<uint64_t>{4}));
}

// The start of a session and its end: what lay between, completions among it, is not there.
TEST(Fates, OfACutSessionTheRestIsNotKnown) {
  const std::string_view text = "10 queue 1\n20 commit 1\n30 commit 2\n900 commit 8\n";
  const CutSession session(text, 800);
  EXPECT_EQ(InFlight(session), (std::vector<uint64_t>{8}));
  EXPECT_EQ(Timeline::Build(session).counts().cut_away, 2U);
  // What later submissions know counts for more.
  const CutSession told("10 queue 1\n20 commit 1\n30 commit 2\n900 commit 8 depth=1\n", 800);
  EXPECT_EQ(Timeline::Build(told).counts().untimed, 2U);
  EXPECT_EQ(Timeline::Build(told).counts().cut_away, 0U);
}

}  // namespace
}  // namespace smeltr::analysis
