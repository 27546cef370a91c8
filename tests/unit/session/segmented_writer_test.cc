#include "session/segmented_writer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <system_error>
#include <vector>

#include "session/reader.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::TemporaryDirectory;

constexpr uint64_t kMiB = uint64_t{1} << 20;

class SegmentedWriterTest : public ::testing::Test {
 protected:
  SegmentedWriter Create(uint64_t max_bytes) {
    auto writer = SegmentedWriter::Create(directory_.path(), {.max_bytes = max_bytes});
    EXPECT_TRUE(writer.has_value()) << writer.error().text();
    return std::move(*writer);
  }
  SegmentedWriter Continue(uint64_t max_bytes) {
    auto writer = SegmentedWriter::Continue(directory_.path(), {.max_bytes = max_bytes});
    EXPECT_TRUE(writer.has_value()) << writer.error().text();
    return std::move(*writer);
  }
  // Events that zstd cannot make small: about 150 bytes each on disk.
  void Append(SegmentedWriter& writer, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      std::string label(150, ' ');
      for (char& c : label) {
        noise_ = noise_ * 6364136223846793005U + 1442695040888963407U;
        c = static_cast<char>(noise_ >> 56);
      }
      event::Mark mark;
      mark.label = std::string_view(label);
      writer.Append({{.ts_ns = ++clock_}, mark});
      EXPECT_LE(DiskBytes(), limit_);
    }
  }
  uint64_t DiskBytes() const {
    if (clock_ % 64 != 0) return 0;
    uint64_t bytes = 0;
    for (const uint32_t number : ListSegments(directory_.path())) {
      std::error_code error;
      const uintmax_t size = std::filesystem::file_size(directory_.path() / SegmentName(number), error);
      bytes += error ? 0 : size;
    }
    return bytes;
  }
  // Of all files, in the order of their numbers.
  std::vector<uint64_t> Seqs() const {
    std::vector<uint64_t> seqs;
    for (const uint32_t number : ListSegments(directory_.path())) {
      const auto reader = Reader::Open(directory_.path() / SegmentName(number));
      EXPECT_TRUE(reader.has_value());
      reader->ForEach({}, [&](const event::Event& event) { seqs.push_back(event.envelope.seq); });
    }
    return seqs;
  }

  TemporaryDirectory directory_;
  uint64_t limit_ = UINT64_MAX;
  uint64_t clock_ = 0;
  uint64_t noise_ = 1;
};

TEST_F(SegmentedWriterTest, WithoutALimitThereIsOneFile) {
  SegmentedWriter writer = Create(0);
  Append(writer, 20'000);
  ASSERT_TRUE(writer.Close().has_value());
  EXPECT_EQ(ListSegments(directory_.path()), std::vector<uint32_t>{0});
  EXPECT_EQ(writer.stats().event_count, 20'000U);
  EXPECT_EQ(writer.stats().trimmed_event_count, 0U);
  EXPECT_EQ(Seqs().size(), 20'000U);
}

TEST_F(SegmentedWriterTest, TheFirstAndTheNewestEventsStayAndTheRestIsCounted) {
  limit_ = 2 * kMiB;
  SegmentedWriter writer = Create(limit_);
  constexpr uint64_t kCount = 60'000;  // Some 9 MiB.
  Append(writer, kCount);
  ASSERT_TRUE(writer.Close().has_value());
  const WriterStats& stats = writer.stats();
  EXPECT_EQ(stats.event_count, kCount);
  EXPECT_EQ(stats.counts_by_kind.at("Mark"), kCount);
  EXPECT_GT(stats.trimmed_file_count, 10U);
  EXPECT_LE(writer.file_bytes(), limit_);
  EXPECT_GE(writer.file_bytes(), limit_ / 2) << "the limit is used, not feared";

  const std::vector<uint32_t> numbers = ListSegments(directory_.path());
  EXPECT_EQ(numbers.front(), 0U);
  EXPECT_GT(numbers.at(1), 1U) << "the middle is gone";
  const std::vector<uint64_t> seqs = Seqs();
  EXPECT_EQ(seqs.size() + stats.trimmed_event_count, kCount);
  EXPECT_TRUE(std::ranges::is_sorted(seqs));
  EXPECT_EQ(seqs.front(), 1U);
  EXPECT_EQ(seqs.back(), kCount);
  // The tail is without holes.
  const auto hole = std::ranges::adjacent_find(seqs, [](uint64_t a, uint64_t b) { return b != a + 1; });
  ASSERT_NE(hole, seqs.end());
  EXPECT_EQ(*(hole + 1) - *hole - 1, stats.trimmed_event_count);
  EXPECT_EQ(std::adjacent_find(hole + 1, seqs.end(), [](uint64_t a, uint64_t b) { return b != a + 1; }),
            seqs.end());
}

// What is kept belongs to scopes that were entered in files that are gone.
TEST_F(SegmentedWriterTest, EachFileBeginsWithTheOpenScopes) {
  limit_ = 2 * kMiB;
  SegmentedWriter writer = Create(limit_);
  Append(writer, 5'000);  // Beyond the first file, which stays.
  const auto enter = [&](uint64_t id, uint64_t parent, std::string_view name) {
    writer.Append({{.ts_ns = ++clock_, .pid = 7},
                   event::ModuleEntered{.module_call_id = event::ScopeId{id},
                                        .qualname = name,
                                        .parent_call_id = event::ScopeId{parent}}});
  };
  enter(1, 0, "epoch");
  const uint64_t entered_ns = clock_;
  enter(2, 1, "over");
  writer.Append({{.ts_ns = ++clock_, .pid = 7}, event::ModuleReturned{.module_call_id = event::ScopeId{2}}});
  Append(writer, 40'000);
  ASSERT_TRUE(writer.Close().has_value());
  const std::vector<uint32_t> numbers = ListSegments(directory_.path());
  ASSERT_GT(numbers.at(1), 2U) << "they were entered in a file that is gone";
  for (size_t i = 1; i < numbers.size(); ++i) {
    std::vector<std::string> names;
    Reader::Open(directory_.path() / SegmentName(numbers[i]))
        ->ForEachOf<event::ModuleEntered>(
            [&](const event::Envelope& envelope, const event::ModuleEntered& scope) {
              EXPECT_EQ(envelope.ts_ns, entered_ns);
              EXPECT_EQ(envelope.pid, 7U);
              names.emplace_back(scope.qualname.view);
            });
    EXPECT_EQ(names, std::vector<std::string>{"epoch"});
  }
}

TEST_F(SegmentedWriterTest, TinyLimitsAreRaisedToOneThatWorks) {
  limit_ = kMinSessionBytes;
  SegmentedWriter writer = Create(1);
  Append(writer, 20'000);
  ASSERT_TRUE(writer.Close().has_value());
  EXPECT_GT(ListSegments(directory_.path()).size(), 2U);
}

TEST_F(SegmentedWriterTest, AnotherDaemonGoesOnWithNumbersSeqsAndLimit) {
  limit_ = 2 * kMiB;
  {
    SegmentedWriter writer = Create(limit_);
    Append(writer, 30'000);
    ASSERT_TRUE(writer.Flush().has_value());
    // It dies here: no footer.
  }
  const std::vector<uint32_t> before = ListSegments(directory_.path());
  SegmentedWriter writer = Continue(limit_);
  EXPECT_EQ(writer.next_seq(), 30'001U);
  Append(writer, 30'000);
  ASSERT_TRUE(writer.Close().has_value());
  EXPECT_EQ(writer.stats().event_count, 30'000U) << "its own";
  EXPECT_GT(writer.stats().trimmed_event_count, 0U);
  EXPECT_GT(ListSegments(directory_.path()).back(), before.back());
  const std::vector<uint64_t> seqs = Seqs();
  EXPECT_EQ(seqs.front(), 1U);
  EXPECT_EQ(seqs.back(), 60'000U);
  EXPECT_TRUE(std::ranges::is_sorted(seqs));
}

TEST_F(SegmentedWriterTest, GoingOnBehindUnreadableFilesTouchesNone) {
  const std::filesystem::path damaged = directory_.path() / "events-7.smlt";
  std::ofstream(damaged) << "no session file at all";
  SegmentedWriter writer = Continue(0);
  Append(writer, 1);
  ASSERT_TRUE(writer.Close().has_value());
  EXPECT_EQ(ListSegments(directory_.path()), (std::vector<uint32_t>{7, 8}));
  EXPECT_EQ(std::filesystem::file_size(damaged), 22U);
}

TEST_F(SegmentedWriterTest, NamesThatAreNoSegmentsAreNotTakenForOnes) {
  for (const char* name :
       {"events-0.smlt", "events-01.smlt", "events-.smlt", "events--1.smlt", "events-1.smlt~",
        "events-99999999999.smlt", "events", "metadata.toml", "events-2.smlt"}) {
    std::ofstream(directory_.path() / name) << "x";
  }
  EXPECT_EQ(ListSegments(directory_.path()), std::vector<uint32_t>{2});
  EXPECT_TRUE(ListSegments(directory_.path() / "none").empty());
  EXPECT_EQ(SegmentName(0), "events.smlt");
  EXPECT_EQ(SegmentName(12), "events-12.smlt");
}

TEST_F(SegmentedWriterTest, ASegmentThatCannotBeMadeCostsNothing) {
  // Where the second file should go there is a directory.
  std::filesystem::create_directory(directory_.path() / "events-1.smlt");
  SegmentedWriter writer = Create(2 * kMiB);
  Append(writer, 5'000);
  ASSERT_TRUE(writer.Close().has_value());
  EXPECT_EQ(writer.stats().lost_count, 0U);
  EXPECT_EQ(Reader::Open(directory_.path() / "events.smlt")->summary().event_count, 5'000U);
}

TEST_F(SegmentedWriterTest, ItsSyncCoversTheFilesThatWereCompleted) {
  SegmentedWriter writer = Create(2 * kMiB);
  Append(writer, 20'000);
  EXPECT_TRUE(writer.Sync().has_value());
  EXPECT_TRUE(writer.Sync().has_value());
}

}  // namespace
}  // namespace smeltr::session
