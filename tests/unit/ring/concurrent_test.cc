#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <iterator>
#include <map>
#include <thread>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

using fake::DrainedEvent;
using fake::RingPair;

// Writes an event of a random kind; false when the ring had no room. Adds what was written to `written`.
bool WriteRandom(Writer& writer, fake::RandomEvents& random, std::vector<std::vector<std::byte>>& written) {
  const auto write = [&]<typename E>() {
    const E fields = random.Make<E>();
    if (!writer.Write(event::Api::kVulkan, fields)) return false;
    written.push_back(fake::FrameBytes(event::Payload(fields)));
    return true;
  };
  switch (random.Below(6)) {
    case 0:
      return write.operator()<event::Mark>();
    case 1:
      return write.operator()<event::CbOps>();
    case 2:
      return write.operator()<event::ModuleEntered>();
    case 3:
      return write.operator()<event::CbCompleted>();
    case 4:
      return write.operator()<event::DeviceInfo>();
    default:
      return write.operator()<event::CbScheduled>();
  }
}

struct WriterThread {
  uint32_t tid = 0;
  std::vector<std::vector<std::byte>> written;
  uint64_t refused = 0;
};

void CheckEachThread(const std::vector<WriterThread>& threads, const std::vector<DrainedEvent>& events) {
  std::map<uint32_t, std::vector<std::vector<std::byte>>> by_tid;
  for (const DrainedEvent& event : events) by_tid[event.envelope.tid].push_back(event.frame);
  // With fewer blocks than threads, one may have found none for all it had to say.
  const auto wrote =
      std::ranges::count_if(threads, [](const auto& thread) { return !thread.written.empty(); });
  EXPECT_EQ(by_tid.size(), static_cast<size_t>(wrote));
  for (const WriterThread& thread : threads) {
    const auto& read = by_tid[thread.tid];
    ASSERT_EQ(read.size(), thread.written.size());
    for (size_t i = 0; i < read.size(); ++i) ASSERT_EQ(read[i], thread.written[i]) << "event " << i;
  }
}

// Threads write at random while a reader drains: what came out is what went in, each thread in its order.
// With few blocks the ring overflows all the time, with many hardly ever.
class ConcurrentTest : public ::testing::TestWithParam<uint32_t> {};

TEST_P(ConcurrentTest, WhatComesOutIsWhatWentIn) {
  RingPair ring(GetParam());
  constexpr size_t kThreads = 4;
  constexpr int kEvents = 3'000;
  std::vector<WriterThread> threads(kThreads);
  std::atomic<size_t> running{kThreads};
  std::vector<std::thread> runners;
  for (size_t t = 0; t < kThreads; ++t) {
    runners.emplace_back([&, t] {
      threads[t].tid = static_cast<uint32_t>(::gettid());
      fake::RandomEvents random(1'000 + t);
      for (int i = 0; i < kEvents; ++i) {
        if (!WriteRandom(ring.writer(), random, threads[t].written)) ++threads[t].refused;
        if (random.Below(200) == 0) std::this_thread::yield();
      }
      --running;
    });
  }
  std::vector<DrainedEvent> events;
  uint64_t corrupt = 0;
  fake::RandomEvents random(5);
  for (bool last = false; !last;) {
    last = running == 0;
    do {
      auto part = ring.Drain(1 + random.Below(500));
      corrupt += ring.last().corrupt_frames;
      std::move(part.begin(), part.end(), std::back_inserter(events));
    } while (ring.last().more);
  }
  for (auto& runner : runners) runner.join();

  EXPECT_EQ(corrupt, 0U);
  EXPECT_TRUE(ring.reader().empty());
  CheckEachThread(threads, events);
  uint64_t dropped = 0;
  for (const DroppedCount& count : ring.reader().TakeDropped()) dropped += count.count;
  uint64_t refused = 0;
  for (const WriterThread& thread : threads) refused += thread.refused;
  EXPECT_EQ(dropped, refused);
}

INSTANTIATE_TEST_SUITE_P(UsableBlocks, ConcurrentTest, ::testing::Values(2, 5, 64));

// Short-lived threads claim and give back blocks all the time, more of them than there are blocks.
TEST(Concurrent, BlocksOfEndedThreadsAreNeverLost) {
  RingPair ring(8);
  constexpr size_t kRunners = 3;
  std::atomic<uint64_t> kept{0};
  std::atomic<uint64_t> refused{0};
  std::atomic<size_t> running{kRunners};
  std::vector<std::thread> runners;
  for (size_t r = 0; r < kRunners; ++r) {
    runners.emplace_back([&] {
      for (int i = 0; i < 300; ++i) {
        std::thread([&] {
          for (uint64_t n = 0; n < 20; ++n) ++(ring.WriteNumber(n) ? kept : refused);
        }).join();
      }
      --running;
    });
  }
  uint64_t read = 0;
  while (running > 0) read += ring.Drain().size();
  for (auto& runner : runners) runner.join();
  read += ring.Drain().size();
  EXPECT_EQ(read, kept);
  uint64_t dropped = 0;
  for (const DroppedCount& count : ring.reader().TakeDropped()) dropped += count.count;
  EXPECT_EQ(dropped, refused);
  // All blocks are to be had again: each holds 1,024 events of 32 bytes.
  EXPECT_EQ(ring.Fill(), 8 * kBlockBytes / 32);
}

}  // namespace
}  // namespace smeltr::ring
