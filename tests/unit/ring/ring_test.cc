#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <concepts>
#include <map>
#include <numeric>
#include <string>
#include <thread>
#include <variant>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

using fake::Numbers;
using fake::RingPair;

std::vector<uint64_t> UpTo(uint64_t count, uint64_t first = 0) {
  std::vector<uint64_t> numbers(count);
  std::iota(numbers.begin(), numbers.end(), first);
  return numbers;
}

std::map<event::Kind, uint64_t> Dropped(Reader& reader) {
  std::map<event::Kind, uint64_t> counts;
  for (const DroppedCount& dropped : reader.TakeDropped()) counts[dropped.kind] = dropped.count;
  return counts;
}

TEST(Ring, EventsCarryProcessThreadAndTime) {
  RingPair ring;
  const uint64_t before_ns = MonotonicNowNs();
  ASSERT_TRUE(ring.WriteNumber(1));
  ASSERT_TRUE(ring.writer().WriteAt(event::Api::kCuda, 77, event::HeapFree{.heap_id = event::HeapId{3}}));
  const auto events = ring.Drain();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].envelope.pid, static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(events[0].envelope.tid, static_cast<uint32_t>(::syscall(SYS_gettid)));
  EXPECT_EQ(events[0].envelope.api, event::Api::kVulkan);
  EXPECT_GE(events[0].envelope.ts_ns, before_ns);
  EXPECT_LE(events[0].envelope.ts_ns, MonotonicNowNs());
  EXPECT_EQ(events[1].envelope.ts_ns, 77U);
  EXPECT_EQ(events[1].kind, event::Kind::kHeapFree);
  EXPECT_EQ(ring.reader().process(), SelfIdentity());
}

bool Write(Writer& writer, const event::Payload& payload) {
  return std::visit(
      [&]<typename E>(const E& fields) {
        if constexpr (std::same_as<E, event::Opaque>) {
          return false;
        } else {
          return writer.Write(event::Api::kMetal, fields);
        }
      },
      payload);
}

TEST(Ring, EveryKindComesOutAsItWentIn) {
  RingPair ring;
  fake::RandomEvents random(11);
  for (size_t kind = fake::RandomEvents::kFirstKind; kind < fake::RandomEvents::kKindEnd; ++kind) {
    for (int round = 0; round < 20; ++round) {
      const event::Payload fields = random.Make(kind);
      if (!Write(ring.writer(), fields)) continue;  // Larger than a block.
      const auto events = ring.Drain();
      ASSERT_EQ(events.size(), 1U);
      EXPECT_EQ(events[0].kind, event::KindOf(fields));
      EXPECT_EQ(events[0].frame, fake::FrameBytes(fields));
    }
  }
}

TEST(Ring, ManyBlocksComeOutInOrder) {
  RingPair ring;
  const uint64_t count = ring.Fill();
  EXPECT_GT(count, 20'000U);
  EXPECT_EQ(Numbers(ring.Drain()), UpTo(count));
  EXPECT_TRUE(ring.reader().empty());
}

TEST(Ring, ReusesBlocksForever) {
  RingPair ring(2);
  uint64_t written = 0;
  uint64_t read = 0;
  for (int round = 0; round < 200; ++round) {
    for (int i = 0; i < 700; ++i) ASSERT_TRUE(ring.WriteNumber(written++));
    const auto events = ring.Drain();
    EXPECT_EQ(Numbers(events), UpTo(events.size(), read));
    read += events.size();
  }
  EXPECT_EQ(read, written);
}

TEST(Ring, ALimitedDrainGoesOnWhereItStopped) {
  RingPair ring;
  for (uint64_t i = 0; i < 5'000; ++i) ASSERT_TRUE(ring.WriteNumber(i));
  uint64_t read = 0;
  while (read < 5'000) {
    const auto events = ring.Drain(333);
    EXPECT_EQ(Numbers(events), UpTo(events.size(), read));
    read += events.size();
    EXPECT_EQ(ring.last().more, read < 5'000);
    EXPECT_EQ(ring.reader().empty(), read == 5'000);
  }
}

TEST(Ring, DropsTheNewestAndCountsThemByKind) {
  RingPair ring(3);
  const uint64_t kept = ring.Fill();  // One dropped by the attempt that found it full.
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(ring.writer().Write(event::Api::kVulkan, event::HeapFree{}));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(ring.WriteNumber(0));
  const std::map<event::Kind, uint64_t> expected{{event::Kind::kCbScheduled, 5},
                                                 {event::Kind::kHeapFree, 10}};
  EXPECT_EQ(Dropped(ring.reader()), expected);
  EXPECT_TRUE(ring.reader().TakeDropped().empty()) << "reported once";
  EXPECT_EQ(Numbers(ring.Drain()), UpTo(kept)) << "what was in the ring is not touched";
  EXPECT_TRUE(ring.WriteNumber(1)) << "and there is room again";
}

TEST(Ring, ANewReaderDoesNotRepeatDropsOfTheLast) {
  RingPair ring(1);
  ring.Fill();
  EXPECT_EQ(Dropped(ring.reader())[event::Kind::kCbScheduled], 1U);
  EXPECT_FALSE(ring.WriteNumber(0));
  EXPECT_FALSE(ring.WriteNumber(0));
  Reader second = ring.NewReader();
  EXPECT_EQ(Dropped(second)[event::Kind::kCbScheduled], 2U);
}

TEST(Ring, CountsStayExactWithThreadsThatOverflowIt) {
  RingPair ring(4);
  constexpr uint64_t kPerThread = 20'000;
  std::atomic<uint64_t> kept{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (uint64_t i = 0; i < kPerThread; ++i) kept += ring.WriteNumber(i) ? 1 : 0;
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(ring.Drain().size(), kept);
  EXPECT_EQ(Dropped(ring.reader())[event::Kind::kCbScheduled], 4 * kPerThread - kept);
}

TEST(Ring, AFrameLargerThanABlockIsDroppedAndDoesNoHarm) {
  RingPair ring(2);
  const std::vector<int64_t> codes(kBlockBytes / sizeof(int64_t));
  ASSERT_TRUE(ring.WriteNumber(0));
  for (int i = 0; i < 100; ++i) {
    EXPECT_FALSE(ring.writer().Write(event::Api::kNone, event::MachException{.codes = codes}));
  }
  EXPECT_TRUE(ring.WriteNumber(1));
  EXPECT_EQ(Dropped(ring.reader())[event::Kind::kMachException], 100U);
  EXPECT_EQ(Numbers(ring.Drain()), UpTo(2));
}

TEST(Ring, ALateReaderFindsEverything) {
  RingPair ring;
  for (uint64_t i = 0; i < 3'000; ++i) ASSERT_TRUE(ring.WriteNumber(i));
  Reader late = ring.NewReader();
  std::vector<uint64_t> numbers;
  late.Drain(UINT64_MAX, [&](const event::Event& event) { numbers.push_back(fake::Copy(event).number); });
  EXPECT_EQ(numbers, UpTo(3'000));
}

TEST(Ring, ASecondReaderGoesOnWhereTheFirstStopped) {
  RingPair ring;
  for (uint64_t i = 0; i < 3'000; ++i) ASSERT_TRUE(ring.WriteNumber(i));
  EXPECT_EQ(Numbers(ring.Drain(1'234)), UpTo(1'234));
  Reader second = ring.NewReader();
  for (uint64_t i = 3'000; i < 4'000; ++i) ASSERT_TRUE(ring.WriteNumber(i));
  std::vector<uint64_t> numbers;
  second.Drain(UINT64_MAX, [&](const event::Event& event) { numbers.push_back(fake::Copy(event).number); });
  EXPECT_EQ(numbers, UpTo(4'000 - 1'234, 1'234));
  EXPECT_TRUE(second.empty());
}

TEST(Ring, AReaderThatDiedWhileFreeingABlockIsRepaired) {
  RingPair ring(1);
  ring.Fill();
  ring.writer().ReleaseThreadBlock();
  ring.Drain();
  // As if the last reader had stopped in the middle of freeing it.
  ring.block(0).state = BlockState::kClosed;
  ring.block(0).order = 1;
  ring.block(0).committed = 0;
  ring.block(0).consumed = kBlockBytes;
  EXPECT_TRUE(ring.Drain().empty());
  EXPECT_EQ(ring.last().corrupt_frames, 0U);
  EXPECT_TRUE(ring.WriteNumber(5));
  EXPECT_EQ(Numbers(ring.Drain()), UpTo(1, 5));
}

TEST(Ring, ClosedIsSaidButDoesNotStopTheWriter) {
  RingPair ring;
  EXPECT_FALSE(ring.reader().closed());
  ring.writer().MarkClosed();
  EXPECT_TRUE(ring.reader().closed());
  EXPECT_TRUE(ring.WriteNumber(0));
  EXPECT_FALSE(ring.reader().empty());
  EXPECT_EQ(ring.Drain().size(), 1U);
}

TEST(Ring, AThreadThatEndsGivesItsBlockBack) {
  RingPair ring(2);
  for (uint64_t i = 0; i < 100; ++i) {
    std::thread([&] { EXPECT_TRUE(ring.WriteNumber(i)); }).join();
    EXPECT_EQ(Numbers(ring.Drain()), UpTo(1, i));
  }
}

pthread_key_t g_late_key;
RingPair* g_late_ring;

// A destructor of another library that still submits something.
void WriteLate(void*) { EXPECT_TRUE(g_late_ring->WriteNumber(1)); }

TEST(Ring, AWriteDuringTheThreadsEndIsKeptAndItsBlockGivenBackToo) {
  RingPair ring(2);
  g_late_ring = &ring;
  ASSERT_EQ(pthread_key_create(&g_late_key, WriteLate), 0);
  for (int i = 0; i < 50; ++i) {
    std::thread([&] {
      ASSERT_EQ(pthread_setspecific(g_late_key, &ring), 0);
      EXPECT_TRUE(ring.WriteNumber(0));
    }).join();
    EXPECT_EQ(Numbers(ring.Drain()), UpTo(2));
  }
  pthread_key_delete(g_late_key);
}

TEST(Ring, AThreadStoppedAnywhereDoesNotStallTheOthers) {
  RingPair ring(4);
  // One stopped right after it had claimed a block, before anything else.
  ring.block(0).state = BlockState::kOwned;
  std::atomic<bool> wrote{false};
  std::atomic<bool> go{false};
  // One stopped with a frame half written behind what it committed.
  std::thread stopped([&] {
    EXPECT_TRUE(ring.WriteNumber(100));
    std::memset(ring.data(1) + ring.block(1).committed, 0xEE, 20);
    wrote = true;
    wrote.notify_one();
    go.wait(false);
  });
  wrote.wait(false);
  uint64_t read = 0;
  for (uint64_t i = 0; i < 50'000; ++i) {
    if (!ring.WriteNumber(i)) ADD_FAILURE() << "full at " << i;
    if (i % 500 == 499) read += ring.Drain().size();
  }
  EXPECT_EQ(read, 50'001U);
  EXPECT_EQ(ring.last().corrupt_frames, 0U);
  EXPECT_TRUE(ring.reader().empty());
  go = true;
  go.notify_one();
  stopped.join();
}

RingPair* g_signal_ring;
std::atomic<uint64_t> g_handler_kept;
std::atomic<uint64_t> g_handler_calls;

void WriteFromHandler(int) {
  g_handler_kept += g_signal_ring->WriteNumber(7) ? 1 : 0;
  ++g_handler_calls;
}

TEST(Ring, ASignalHandlerMayWriteAtAnyTime) {
  RingPair ring;
  g_signal_ring = &ring;
  g_handler_kept = g_handler_calls = 0;
  struct sigaction action{};
  struct sigaction before{};
  action.sa_handler = WriteFromHandler;
  ASSERT_EQ(::sigaction(SIGUSR1, &action, &before), 0);
  std::atomic<bool> stop{false};
  std::thread disturber([&, target = ::pthread_self()] {
    while (!stop) ::pthread_kill(target, SIGUSR1);
  });
  uint64_t kept = 0;
  uint64_t read = 0;
  uint64_t corrupt = 0;
  while (g_handler_calls < 1'000) {
    for (int i = 0; i < 200; ++i) {
      kept +=
          ring.writer().Write(event::Api::kNone, event::Mark{.label = "interrupted", .fields = {}}) ? 1 : 0;
    }
    read += ring.Drain().size();
    corrupt += ring.last().corrupt_frames;
  }
  stop = true;
  disturber.join();
  ::sigaction(SIGUSR1, &before, nullptr);
  read += ring.Drain().size();
  EXPECT_EQ(corrupt, 0U);
  EXPECT_EQ(read, kept + g_handler_kept);
  EXPECT_EQ(Dropped(ring.reader())[event::Kind::kCbScheduled], g_handler_calls - g_handler_kept);
}

TEST(Ring, AnotherGenerationForgetsTheThreadsBlock) {
  RingPair parent;
  RingPair child;
  ASSERT_TRUE(parent.WriteNumber(1));
  ASSERT_TRUE(child.WriteNumber(2));
  EXPECT_EQ(Numbers(parent.Drain()), UpTo(1, 1));
  EXPECT_EQ(Numbers(child.Drain()), UpTo(1, 2));
}

TEST(Ring, AWriterWithoutARingRefuses) {
  Writer writer;
  EXPECT_FALSE(writer.Write(event::Api::kNone, event::HeapFree{}));
  EXPECT_EQ(writer.Intern("x"), 0U);
  writer.MarkClosed();
}

}  // namespace
}  // namespace smeltr::ring
