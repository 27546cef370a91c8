#include "analysis/windows.h"

#include <gtest/gtest.h>

#include "analysis/attribution.h"
#include "fake/session_builder.h"

namespace smeltr::analysis {
namespace {

TEST(IntervalIndex, LatestStartedWins) {
  IntervalIndex index;
  index.Add(10, 40, 1);
  index.Add(20, 30, 2);
  index.Seal();
  EXPECT_EQ(index.At(9), kNone);
  EXPECT_EQ(index.At(10), 1U);
  EXPECT_EQ(index.At(20), 2U);
  EXPECT_EQ(index.At(30), 2U);
  EXPECT_EQ(index.At(31), 1U);
  EXPECT_EQ(index.At(40), 1U);
  EXPECT_EQ(index.At(41), kNone);
}

TEST(IntervalIndex, OverlapWithoutNesting) {
  IntervalIndex index;
  index.Add(0, 10, 1);
  index.Add(5, 20, 2);
  index.Add(8, 9, 3);
  index.Seal();
  EXPECT_EQ(index.At(7), 2U);
  EXPECT_EQ(index.At(9), 3U);
  EXPECT_EQ(index.At(10), 2U);
  EXPECT_EQ(index.At(20), 2U);
  EXPECT_EQ(index.At(21), kNone);
}

TEST(IntervalIndex, EmptyAndEndless) {
  IntervalIndex empty;
  empty.Seal();
  EXPECT_EQ(empty.At(5), kNone);
  IntervalIndex endless;
  endless.Add(5, ~uint64_t{0}, 7);
  endless.Seal();
  EXPECT_EQ(endless.At(4), kNone);
  EXPECT_EQ(endless.At(~uint64_t{0} - 1), 7U);
}

// The method, reason and scope id of the CB `cb` of the session `text`.
struct Answer {
  Method method;
  UnscopedReason reason;
  uint64_t scope_id;
};

Answer AttributionOf(std::string_view text, uint64_t cb) {
  const fake::SessionBuilder session(text);
  const Timeline timeline = Timeline::Build(session);
  const auto attributions = Attribute(timeline);
  const Attribution& found = attributions[timeline.FindCb(100, event::CbId{cb})];
  return {found.method, found.reason, found.scope == kNone ? 0 : timeline.scopes()[found.scope].id};
}

TEST(Attribution, StampIsExactWhateverTheWindowsSay) {
  const Answer answer = AttributionOf(
      "10 scope+ 1 a\n20 scope- 1\n30 scope+ 2 b\n40 commit 7 scope=1\n50 scope- 2\n60 done 7 gpu=45..50\n",
      7);
  EXPECT_EQ(answer.method, Method::kExact);
  EXPECT_EQ(answer.scope_id, 1U);
}

TEST(Attribution, ScopeWindowIsInnermostAndTrulyOpen) {
  constexpr auto kText =
      "10 scope+ 1 outer\n20 scope+ 2 inner\n30 scope- 2\n40 scope- 1\n25 commit 1\n35 commit 2\n";
  EXPECT_EQ(AttributionOf(kText, 1).scope_id, 2U);
  EXPECT_EQ(AttributionOf(kText, 2).scope_id, 1U) << "a finished child must not beat its open parent";
  EXPECT_EQ(AttributionOf(kText, 2).method, Method::kScope);
}

TEST(Attribution, LatestStartedEvalWins) {
  constexpr auto kText =
      "0 scope+ 1 a\n0 scope+ 2 b\n0 eval+ 1 stack=1\n5ms eval- 1 async\n10ms eval+ 2 stack=2\n"
      "12ms commit 1\n15ms eval- 2 async\n1s scope- 2\n1s scope- 1\n";
  const Answer answer = AttributionOf(kText, 1);
  EXPECT_EQ(answer.method, Method::kEval);
  EXPECT_EQ(answer.scope_id, 2U);
}

TEST(Attribution, GraceOnlyForAsynchronousEvalsAndOnlyHalfASecond) {
  const std::string head = "0 scope+ 1 a tid=2\n1 scope- 1 tid=2\n";
  const auto with = [&](std::string_view how, std::string_view commit) {
    return AttributionOf(head + "1s eval+ 5 stack=1\n1.1s eval- 5 " + std::string(how) + "\n" +
                             std::string(commit) + " commit 7\n",
                         7);
  };
  EXPECT_EQ(with("async", "1.6s").method, Method::kEvalGrace);
  EXPECT_EQ(with("async", "1.60001s").method, Method::kUnscoped);
  EXPECT_EQ(with("", "1.2s").method, Method::kUnscoped);
}

TEST(Attribution, ScopeGraceNeverOutranksAnOpenScope) {
  EXPECT_EQ(AttributionOf("10 scope+ 1 a\n20 scope- 1\n500 commit 7\n", 7).method, Method::kScopeGrace);
  const Answer open =
      AttributionOf("10 scope+ 1 a\n20 scope- 1\n30 scope+ 2 b\n500 commit 7\n600 scope- 2\n", 7);
  EXPECT_EQ(open.method, Method::kScope);
  EXPECT_EQ(open.scope_id, 2U);
}

TEST(Attribution, WorkerThreadBorrowsTheOnlyCandidate) {
  const Answer one = AttributionOf("10 scope+ 1 a\n15 commit 7 tid=9\n20 scope- 1\n", 7);
  EXPECT_EQ(one.method, Method::kScope);
  EXPECT_EQ(one.scope_id, 1U);

  const Answer two = AttributionOf(
      "10 scope+ 1 a\n11 scope+ 2 b tid=2\n15 commit 7 tid=9\n20 scope- 1\n20 scope- 2 tid=2\n", 7);
  EXPECT_EQ(two.method, Method::kUnscoped);
  EXPECT_EQ(two.reason, UnscopedReason::kAmbiguousThread);
}

TEST(Attribution, ThreadWithScopesOfItsOwnBorrowsNothing) {
  const Answer answer = AttributionOf(
      "10 scope+ 1 a\n2s scope- 1\n1 scope+ 2 own tid=9\n2 scope- 2 tid=9\n1.5s commit 7 tid=9\n", 7);
  EXPECT_EQ(answer.method, Method::kUnscoped);
  EXPECT_EQ(answer.reason, UnscopedReason::kOutsideWindows);
}

TEST(Attribution, OtherProcessesNeverLend) {
  const Answer answer = AttributionOf("10 scope+ 1 a pid=200\n15 commit 7\n20 scope- 1 pid=200\n", 7);
  EXPECT_EQ(answer.method, Method::kUnscoped);
  EXPECT_EQ(answer.reason, UnscopedReason::kNoInstrumentation);
}

TEST(Attribution, ReasonsOfUnscopedWork) {
  EXPECT_EQ(AttributionOf("15 commit 7 scope=99\n", 7).reason, UnscopedReason::kUnknownScope);
  EXPECT_EQ(AttributionOf("10 eval+ 1\n15 commit 7\n20 eval- 1\n", 7).reason, UnscopedReason::kLazyEval);
  EXPECT_EQ(AttributionOf("10 scope+ 1 a\n20 scope- 1\n2s commit 7\n", 7).reason,
            UnscopedReason::kOutsideWindows);
}

TEST(Attribution, LazyEvalDoesNotShadowAnOpenScope) {
  const Answer answer = AttributionOf("5 scope+ 1 a\n10 eval+ 1\n15 commit 7\n20 eval- 1\n30 scope- 1\n", 7);
  EXPECT_EQ(answer.method, Method::kScope);
}

TEST(Attribution, DebugLabelsInCommandBuffersAreNoWindows) {
  const Answer answer = AttributionOf("10 scope+ 1 pass label\n15 commit 7\n20 scope- 1\n", 7);
  EXPECT_EQ(answer.method, Method::kUnscoped);
}

TEST(Attribution, ScopesCloseByNameNotByPosition) {
  constexpr auto kText =
      "10 scope+ 1 a\n20 scope+ 2 b\n30 scope- 1\n40 scope- 2\n35 commit 1\n41 scope- 99\n";
  EXPECT_EQ(AttributionOf(kText, 1).scope_id, 2U);
}

}  // namespace
}  // namespace smeltr::analysis
