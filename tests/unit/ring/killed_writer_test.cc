// A writer killed between any two instructions: nothing that it committed is lost, nothing is corrupt.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <random>
#include <thread>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

constexpr size_t kThreads = 2;

// Shared with the child: how many writes of each thread have returned true.
struct Progress {
  std::array<std::atomic<uint64_t>, kThreads> written;
  std::atomic<uint32_t> failures;
};

void WriteForever(Writer& writer, Progress& progress, size_t thread) {
  for (uint64_t next = 0;;) {
    const std::string label = "label " + std::to_string(next % 3'000);
    const event::Attribute field{.key = "n", .type = event::AttributeType::kInt, .bits = next, .text = {}};
    const event::Attribute who{.key = "who", .type = event::AttributeType::kInt, .bits = thread, .text = {}};
    const std::array fields{field, who};
    if (writer.Write(event::Api::kNone, event::Mark{.label = std::string_view(label), .fields = fields})) {
      progress.written[thread].store(++next, std::memory_order_release);
    }
  }
}

[[noreturn]] void RunChild(const char* directory, Progress& progress) {
  auto segment = Segment::Create(directory, {.block_count = 8 + kFatalBlockCount});
  if (!segment.has_value()) {
    ++progress.failures;
    ::_exit(1);
  }
  Writer writer;
  writer.Attach(&segment->header(), 1'000'000);
  std::thread second([&] { WriteForever(writer, progress, 1); });
  WriteForever(writer, progress, 0);
  ::_exit(1);
}

// Checks every event as it comes: contiguous numbers, each with its own label.
class Checker {
 public:
  void operator()(const event::Event& event) {
    const auto& mark = std::get<event::Mark>(event.payload);
    ASSERT_EQ(mark.fields.size(), 2U);
    const uint64_t number = mark.fields[0].bits;
    const uint64_t thread = mark.fields[1].bits;
    ASSERT_LT(thread, kThreads);
    ASSERT_EQ(number, read[thread]++);
    ASSERT_EQ(mark.label.view, "label " + std::to_string(number % 3'000));
    ASSERT_EQ(mark.fields[1].key.view, "who");
  }
  std::array<uint64_t, kThreads> read{};
};

void DrainAll(Reader& reader, Checker& checker) {
  DrainResult result;
  do {
    result = reader.Drain(10'000, std::ref(checker));
    ASSERT_EQ(result.corrupt_frames, 0U);
  } while (result.more);
}

TEST(KilledWriter, LosesNothingAndLeavesNothingBroken) {
  void* shared = ::mmap(nullptr, sizeof(Progress), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(shared, MAP_FAILED);
  std::mt19937 random(99);
  uint64_t total = 0;
  for (int round = 0; round < 50; ++round) {
    SCOPED_TRACE(round);
    auto& progress = *new (shared) Progress{};
    fake::ScratchDirectory directory;
    const pid_t child = ::fork();
    ASSERT_NE(child, -1);
    if (child == 0) RunChild(directory.path().c_str(), progress);
    while (progress.written[0] + progress.written[1] + progress.failures == 0) std::this_thread::yield();
    ASSERT_EQ(progress.failures, 0U);

    Reader reader(Segment::Map(directory.Rings().at(0).c_str()).value());
    Checker checker;
    const auto end = std::chrono::steady_clock::now() + std::chrono::microseconds(random() % 6'000);
    // Every other round nobody reads until it is dead: the ring is full, and stays as it was.
    while (std::chrono::steady_clock::now() < end) {
      if (round % 2 != 0) continue;
      ASSERT_NO_FATAL_FAILURE(DrainAll(reader, checker));
    }
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_FALSE(IsAlive(reader.process()));

    ASSERT_NO_FATAL_FAILURE(DrainAll(reader, checker));
    EXPECT_TRUE(reader.empty());
    EXPECT_FALSE(reader.closed());
    for (size_t thread = 0; thread < kThreads; ++thread) {
      // It may have died between the commit and the count.
      EXPECT_GE(checker.read[thread], progress.written[thread]);
      EXPECT_LE(checker.read[thread], progress.written[thread] + 1);
      total += checker.read[thread];
    }
  }
  EXPECT_GT(total, 10'000U);
  ::munmap(shared, sizeof(Progress));
}

}  // namespace
}  // namespace smeltr::ring
