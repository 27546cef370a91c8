#include "daemon/flight_recorder.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/clock.h"
#include "event/event.h"
#include "session/chunk_builder.h"

namespace smeltr::daemon {
namespace {

constexpr uint64_t kWindowNs = 60 * kNsPerSecond;
constexpr size_t kLimit = 1 << 20;

class FlightRecorderTest : public testing::Test {
 protected:
  // A chunk of one event, of about `bytes` if they are more than a few.
  void Note(std::string_view session, uint64_t at_s, size_t bytes = 0,
            event::Payload payload = event::Mark{}) {
    std::string noise(bytes, ' ');
    for (char& c : noise)
      c = static_cast<char>((noise_ = noise_ * 6364136223846793005U + 1442695040888963407U) >> 56);
    // Long texts are cut, so in pieces.
    std::vector<event::Text> pieces;
    for (size_t at = 0; at < noise.size(); at += 1000)
      pieces.emplace_back(std::string_view(noise).substr(at, 1000));
    session::ChunkBuilder builder(1 << 20, 1);
    builder.Append({.ts_ns = at_s * kNsPerSecond, .seq = ++seq_}, payload);
    for (const event::Text& piece : pieces) {
      event::Mark mark;
      mark.label = piece;
      builder.Append({.ts_ns = at_s * kNsPerSecond, .seq = ++seq_}, mark);
    }
    session::SealedChunk chunk{.bytes = {},
                               .min_ts_ns = builder.min_ts_ns(),
                               .max_ts_ns = builder.max_ts_ns(),
                               .event_count = builder.event_count()};
    chunk.bytes = builder.Seal();
    recorder_.Note(session, chunk, at_s * kNsPerSecond);
  }
  // When its chunks came, in seconds.
  std::vector<uint64_t> Times(std::string_view session, uint64_t begin_s = 0, uint64_t end_s = 1'000'000) {
    std::vector<uint64_t> times;
    for (const RecordedChunk& chunk :
         recorder_.Snapshot(session, begin_s * kNsPerSecond, end_s * kNsPerSecond)) {
      times.push_back(chunk.noted_ns / kNsPerSecond);
    }
    return times;
  }
  using Seconds = std::vector<uint64_t>;

  FlightRecorder recorder_{kWindowNs, kLimit};
  uint64_t seq_ = 0;
  uint64_t noise_ = 1;
};

TEST_F(FlightRecorderTest, TheWindowIsKeptAndTheFirstChunkToo) {
  for (uint64_t s = 1; s <= 100; ++s) Note("a", s);
  const Seconds times = Times("a");
  EXPECT_EQ(times.front(), 1U);
  EXPECT_EQ(times.at(1), 40U);
  EXPECT_EQ(times.back(), 100U);
  EXPECT_EQ(times.size(), 62U);
  EXPECT_EQ(recorder_.span_ns(100 * kNsPerSecond), kWindowNs);
  EXPECT_EQ(recorder_.evicted_count("a"), 0U) << "age is no loss";
}

TEST_F(FlightRecorderTest, OneQuietSessionDoesNotKeepAnothersPast) {
  Note("a", 1);
  Note("a", 2);
  Note("b", 100);
  EXPECT_EQ(Times("a"), Seconds{1});
}

TEST_F(FlightRecorderTest, SnapshotsTakeWhatTouchesTheTimeAndWhatIsKeptApart) {
  for (uint64_t s = 10; s <= 20; ++s) Note("a", s);
  EXPECT_EQ(Times("a", 14, 16), (Seconds{10, 14, 15, 16}));
  EXPECT_TRUE(Times("none").empty());
}

TEST_F(FlightRecorderTest, ChunksThatNameDevicesStayWhileTheSessionIsOpen) {
  Note("a", 1);
  Note("a", 2, 0, event::DeviceInfo{});
  Note("a", 3, 0, event::Mark{});
  Note("a", 4, 0, event::QueueInfo{});
  Note("a", 200);
  EXPECT_EQ(Times("a"), (Seconds{1, 2, 4, 200}));
  recorder_.Forget("a", 210 * kNsPerSecond);
  recorder_.Expire(230 * kNsPerSecond);
  EXPECT_EQ(Times("a"), (Seconds{1, 2, 4, 200})) << "a dump may still come";
  recorder_.Expire(300 * kNsPerSecond);
  EXPECT_TRUE(Times("a").empty());
  EXPECT_EQ(recorder_.bytes(), 0U);
}

TEST_F(FlightRecorderTest, TheLimitHoldsAndTheLargestLosesItsOldest) {
  Note("quiet", 1);
  Note("quiet", 2, 10'000);
  Note("loud", 2);
  for (uint64_t s = 3; s < 40; ++s) {
    Note("loud", s, 100'000);
    EXPECT_LE(recorder_.bytes(), kLimit);
  }
  EXPECT_EQ(Times("quiet"), (Seconds{1, 2}));
  const Seconds loud = Times("loud");
  EXPECT_EQ(loud.front(), 2U) << "the first is apart";
  EXPECT_EQ(loud.back(), 39U);
  EXPECT_LT(loud.size(), 13U);
  EXPECT_EQ(recorder_.evicted_count("loud"), (38 - loud.size()) * 101);
  EXPECT_EQ(recorder_.evicted_count("quiet"), 0U);
  // What was lost has aged by now.
  recorder_.Expire(200 * kNsPerSecond);
  EXPECT_EQ(recorder_.evicted_count("loud"), 0U);
}

TEST_F(FlightRecorderTest, WhatIsKeptApartIsBounded) {
  for (uint64_t s = 1; s <= 30; ++s) Note("a", s, 20'000, event::DeviceInfo{});
  for (uint64_t s = 100; s < 130; ++s) Note("b", s, 50'000);
  EXPECT_LE(recorder_.bytes(), kLimit);
  EXPECT_LE(Times("a").size(), 3U) << "a sixteenth of the limit";
  for (int i = 0; i < 100; ++i) Note("session " + std::to_string(i), 200, 50'000);
  EXPECT_LE(recorder_.bytes(), kLimit);
}

TEST_F(FlightRecorderTest, AChunkLargerThanTheLimitIsLetGo) {
  Note("a", 1, 2 * kLimit);
  EXPECT_LE(recorder_.bytes(), kLimit);
  EXPECT_GT(recorder_.evicted_count("a"), 0U);
}

TEST_F(FlightRecorderTest, ASnapshotOutlivesTheRecorder) {
  std::vector<RecordedChunk> chunks;
  {
    FlightRecorder recorder(kWindowNs, kLimit);
    const std::vector<std::byte> bytes(100, std::byte{7});
    recorder.Note("a", {.bytes = bytes, .min_ts_ns = 1, .max_ts_ns = 2, .event_count = 3}, 5);
    chunks = recorder.Snapshot("a", 0, 10);
  }
  ASSERT_EQ(chunks.size(), 1U);
  EXPECT_EQ(*chunks[0].bytes, std::vector<std::byte>(100, std::byte{7}));
}

// A program may stamp its events with any time.
TEST_F(FlightRecorderTest, EventsFromTheFutureAgeLikeOthers) {
  const std::vector<std::byte> bytes(10);
  Note("a", 1);
  recorder_.Note("a", {.bytes = bytes, .min_ts_ns = UINT64_MAX, .max_ts_ns = UINT64_MAX, .event_count = 1},
                 2 * kNsPerSecond);
  EXPECT_EQ(Times("a", 1, 3), (Seconds{1, 2}));
  recorder_.Expire(100 * kNsPerSecond);
  EXPECT_EQ(Times("a"), Seconds{1});
}

}  // namespace
}  // namespace smeltr::daemon
