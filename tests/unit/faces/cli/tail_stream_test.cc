#include "faces/cli/tail_stream.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "event/owned.h"

namespace smeltr::faces::cli {
namespace {

using Json = nlohmann::json;

constexpr const char* kId = "3f2a9c1d-0000-4000-8000-000000000001";

// A batch of marks with these seqs.
ipc::StreamItem Batch(std::initializer_list<uint64_t> seqs, const std::string& id = kId) {
  std::vector<std::byte> bytes;
  for (const uint64_t seq : seqs) {
    event::Event event;
    event.envelope.seq = seq;
    event.envelope.ts_ns = 100 * seq;
    event.payload = event::Mark{.label = "m"};
    EXPECT_TRUE(event::AppendOwned(event, bytes));
  }
  return ipc::EventBatch(id, bytes);
}

std::vector<Json> Lines(const std::string& text) {
  std::vector<Json> lines;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = text.find('\n', start);
    EXPECT_NE(end, std::string::npos) << "a line without its end: " << text;
    lines.push_back(Json::parse(text.substr(start, end - start)));
    start = end + 1;
  }
  return lines;
}

TEST(TailStream, EventsAreLinesWithTheirSession) {
  TailStream stream({});
  const auto lines = Lines(stream.Take(Batch({1, 2})));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0]["session"], "3f2a9c1d");
  EXPECT_EQ(lines[0]["kind"], "Mark");
  EXPECT_EQ(lines[1]["seq"], 2);
  EXPECT_EQ(lines[1]["ts_mono_ns"], 200);
}

TEST(TailStream, GapsAreMarked) {
  TailStream stream({});
  const auto lines = Lines(stream.Take(ipc::Notice(ipc::Gap{kId, 4, 8, 3})));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0], Json::parse(R"({"_smeltr_tail":"gap","session_id":")" + std::string(kId) +
                                  R"(","expected":4,"got":9,"skipped":3})"));
}

TEST(TailStream, HeartbeatsAreNot) {
  TailStream stream({});
  EXPECT_EQ(stream.Take(ipc::Notice(ipc::Heartbeat{{kId}, {5}})), "");
}

TEST(TailStream, ReconnectTellsWhatWasMissed) {
  TailStream stream({});
  EXPECT_EQ(stream.Connected({{kId}, {10}}, 0), "");
  stream.Take(Batch({10, 11}));
  const auto lines = Lines(stream.Connected({{kId, "other"}, {15, 3}}, 2));
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0], Json::parse(R"({"_smeltr_tail":"reconnect","attempt":2})"));
  EXPECT_EQ(lines[1]["_smeltr_tail"], "gap");
  EXPECT_EQ(lines[1]["expected"], 12);
  EXPECT_EQ(lines[1]["got"], 15);
  EXPECT_EQ(lines[1]["skipped"], 3);
  // Told once.
  EXPECT_EQ(Lines(stream.Connected({{kId, "other"}, {15, 3}}, 1)).size(), 1U);
}

TEST(TailStream, NothingMissedIsNoGap) {
  TailStream stream({});
  EXPECT_EQ(stream.Connected({{kId}, {1}}, 0), "");
  stream.Take(Batch({1, 2}));
  EXPECT_EQ(Lines(stream.Connected({{kId}, {3}}, 1)).size(), 1U);
  // Without events of its kinds, heartbeats say how far it is.
  stream.Take(ipc::Notice(ipc::Heartbeat{{kId}, {40}}));
  EXPECT_EQ(Lines(stream.Connected({{kId}, {41}}, 1)).size(), 1U);
}

TEST(TailStream, EndsWithTheLastOfItsSessions) {
  TailStream stream({.session_ids = {"a", "b"}});
  EXPECT_EQ(Lines(stream.Take(ipc::Notice(ipc::SessionClosed{"a", "exit", 9})))[0]["end_reason"], "exit");
  EXPECT_EQ(stream.ended(), "");
  stream.Take(ipc::Notice(ipc::SessionClosed{"b", "signal", 2}));
  EXPECT_EQ(stream.ended(), "the session has ended: signal");
  EXPECT_EQ(stream.Take(Batch({1})), "");

  TailStream all({});
  all.Take(ipc::Notice(ipc::SessionClosed{"a", "exit", 9}));
  EXPECT_EQ(all.ended(), "");
}

TEST(TailStream, EndsAtOnceWhereNothingIsRecordedAnyMore) {
  TailStream stream({.session_ids = {"a", "b"}});
  EXPECT_EQ(stream.Connected({{"b"}, {1}}, 0), "");
  EXPECT_EQ(stream.ended(), "") << "one of them is still recorded";
  EXPECT_EQ(Lines(stream.Connected({{}, {}}, 1)).size(), 1U);
  EXPECT_EQ(stream.ended(), "the session has ended");
}

TEST(TailStream, EventsOnlyMeansNoLinesAboutSessions) {
  TailStream stream({.events_only = true});
  EXPECT_EQ(stream.Take(ipc::Notice(ipc::SessionOpened{kId, "3f2a9c1d", "scoped", ""})), "");
  EXPECT_EQ(Lines(stream.Take(Batch({1}))).size(), 1U);
  EXPECT_EQ(stream.Take(ipc::Notice(ipc::SessionClosed{kId, "exit", 1})), "");
}

TEST(TailStream, TestRecordingsOfDoctorAreNobodysEvents) {
  TailStream stream({});
  EXPECT_EQ(
      stream.Take(ipc::Notice(ipc::SessionOpened{kId, "3f2a9c1d", "scoped", "doctor test of process 9"})),
      "");
  EXPECT_EQ(stream.Take(Batch({1})), "");
  EXPECT_EQ(stream.Take(ipc::Notice(ipc::SessionClosed{kId, "exit", 1})), "");
  EXPECT_EQ(Lines(stream.Take(Batch({1}, "other"))).size(), 1U);
}

TEST(TailStream, CountsEventsOnly) {
  TailStream stream({.count = 2});
  stream.Take(ipc::Notice(ipc::SessionOpened{kId, "3f2a9c1d", "scoped", ""}));
  EXPECT_EQ(Lines(stream.Take(Batch({1, 2, 3}))).size(), 2U);
  EXPECT_EQ(stream.ended(), "2 events printed");
}

TEST(TailStream, TextsFromOutsideStayText) {
  TailStream stream({});
  const auto lines =
      Lines(stream.Take(ipc::Notice(ipc::SessionOpened{"\"}\n", "x", "scoped", "a\"\n\x1b[2Jb"})));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["name"], "a\"\n\x1b[2Jb");
}

TEST(TailStream, DamagedBatchesAreToldNotFatal) {
  TailStream stream({});
  const auto lines = Lines(stream.Take(ipc::EventBatch(kId, std::vector<std::byte>(20, std::byte{0xFF}))));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0]["_smeltr_tail"], "damaged");
  EXPECT_EQ(Lines(stream.Take(Batch({1}))).size(), 1U);
}

TEST(QuoteLargeIntegers, OnlyThoseThatADoubleCannotHold) {
  EXPECT_EQ(QuoteLargeIntegers(R"({"a":9007199254740992,"b":9007199254740993,"c":-9007199254740993})"),
            R"({"a":9007199254740992,"b":"9007199254740993","c":"-9007199254740993"})");
  EXPECT_EQ(QuoteLargeIntegers(R"([18446744073709551615,1.5e300,0.12345678901234567])"),
            R"(["18446744073709551615",1.5e300,0.12345678901234567])");
  EXPECT_EQ(QuoteLargeIntegers(R"({"t":"99999999999999999999 \" 99999999999999999999","n":1})"),
            R"({"t":"99999999999999999999 \" 99999999999999999999","n":1})");
  EXPECT_EQ(QuoteLargeIntegers("99999999999999999999"), "\"99999999999999999999\"");
  EXPECT_EQ(QuoteLargeIntegers(""), "");
}

}  // namespace
}  // namespace smeltr::faces::cli
