// Proofs by exhaustion: every bit of a file flipped, many cuts of a larger one, and whatever is read is true.
// A part of the bits by default; all of them with SMELTR_THOROUGH=1.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "session/format.h"
#include "session/reader.h"
#include "session/repair.h"
#include "session/segmented_writer.h"
#include "session/verify.h"
#include "session/writer.h"
#include "unit/session/patched_file.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

using testing::Fingerprint;
using testing::PatchedFile;
using testing::RandomEvents;
using testing::TemporaryDirectory;

using Prints = std::map<uint64_t, std::string>;

bool Thorough() { return std::getenv("SMELTR_THOROUGH") != nullptr; }

Prints ReadAll(const std::filesystem::path& file) {
  Prints prints;
  const auto reader = Reader::Open(file);
  EXPECT_TRUE(reader.has_value());
  if (!reader) return prints;
  reader->ForEach({}, [&](const event::Event& event) {
    EXPECT_TRUE(prints.emplace(event.envelope.seq, Fingerprint::Of(event)).second);
  });
  return prints;
}

class ProofTest : public ::testing::Test {
 protected:
  // `chunk_count` chunks of `events_each`, with the seqs at which chunks begin.
  void Write(size_t chunk_count, size_t events_each, bool close) {
    auto writer = Writer::Create(file_, {});
    ASSERT_TRUE(writer.has_value());
    RandomEvents random(21);
    chunk_ends_ = {kFileHeaderBytes};
    for (size_t i = 0; i < chunk_count; ++i) {
      for (size_t j = 0; j < events_each; ++j) {
        event::Event event = random.Make();
        writer->Append(event);
        event.envelope.seq = writer->next_seq() - 1;
        prints_.emplace(event.envelope.seq, Fingerprint::Of(event));
        chunk_of_.push_back(i);
      }
      ASSERT_TRUE(writer->Flush().has_value());
      chunk_ends_.push_back(writer->stats().file_bytes);
    }
    if (close) {
      ASSERT_TRUE(writer->Close().has_value());
    }
    bytes_ = ReadFile(file_).value();
  }

  // Reads a file of which one bit was flipped: true, confined and told.
  void CheckFlipped(const PatchedFile& file, size_t bit) {
    const auto reader = Reader::Open(file.path());
    ASSERT_TRUE(reader.has_value()) << "bit " << bit;
    size_t count = 0;
    std::set<size_t> lost_chunks(chunk_of_.begin(), chunk_of_.end());
    std::map<size_t, size_t> read_of_chunk;
    reader->ForEach({}, [&](const event::Event& event) {
      const auto original = prints_.find(event.envelope.seq);
      ASSERT_NE(original, prints_.end()) << "bit " << bit;
      ASSERT_TRUE(original->second == Fingerprint::Of(event))
          << "bit " << bit << " seq " << event.envelope.seq;
      ++count;
      ++read_of_chunk[chunk_of_[event.envelope.seq - 1]];
    });
    const size_t events_each = prints_.size() / (chunk_ends_.size() - 1);
    std::erase_if(lost_chunks, [&](size_t chunk) { return read_of_chunk[chunk] == events_each; });
    ASSERT_LE(lost_chunks.size(), 1U) << "bit " << bit;
    if (count != prints_.size()) {
      EXPECT_TRUE(reader->damage().any()) << "bit " << bit;
    }

    const auto verified = VerifyFile(file.path(), false);
    ASSERT_TRUE(verified.has_value()) << "bit " << bit;
    EXPECT_EQ(verified->event_count, count) << "bit " << bit;
    if (count == prints_.size()) return;
    ASSERT_GT(verified->fault_count, 0U) << "bit " << bit;
    uint64_t lost = 0;
    bool known = true;
    for (const Fault& fault : verified->faults) {
      lost += fault.lost_events.value_or(0);
      known &= fault.lost_events.has_value();
    }
    if (known) {
      EXPECT_EQ(lost, prints_.size() - count) << "bit " << bit;
    }
  }

  void CheckFlips(size_t stride) {
    PatchedFile file(bytes_);
    for (size_t bit = 0; bit < bytes_.size() * 8; bit += stride) {
      file.Flip(bit);
      CheckFlipped(file, bit);
      if (HasFatalFailure()) return;
      file.Flip(bit);
    }
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "events.smlt";
  std::vector<uint64_t> chunk_ends_;
  std::vector<size_t> chunk_of_;  // By seq - 1.
  Prints prints_;
  std::string bytes_;
};

TEST_F(ProofTest, AnyFlippedBitOfAClosedFileIsHarmlessOrToldAndConfined) {
  Write(3, 8, true);
  CheckFlips(Thorough() ? 1 : 7);
}

TEST_F(ProofTest, AnyFlippedBitOfAnUnclosedFileIsHarmlessOrToldAndConfined) {
  Write(3, 8, false);
  CheckFlips(Thorough() ? 1 : 11);
}

TEST_F(ProofTest, ARepairedFileHoldsExactlyWhatCouldBeRead) {
  Write(3, 8, true);
  PatchedFile file(bytes_);
  const std::filesystem::path repaired = directory_.path() / "repaired.smlt";
  for (size_t bit = 0; bit < bytes_.size() * 8; bit += Thorough() ? 7 : 97) {
    file.Flip(bit);
    const Prints readable = ReadAll(file.path());
    const auto count = RepairFile(file.path(), repaired);
    ASSERT_TRUE(count.has_value()) << count.error().text();
    EXPECT_EQ(*count, readable.size()) << bit;
    ASSERT_TRUE(ReadAll(repaired) == readable) << bit;
    const auto verified = VerifyFile(repaired, false);
    ASSERT_TRUE(verified.has_value());
    EXPECT_EQ(verified->fault_count, 0U) << bit;
    EXPECT_TRUE(verified->has_index);
    std::filesystem::remove(repaired);
    file.Flip(bit);
  }
}

TEST_F(ProofTest, CutAtTenThousandPlacesALargeFileKeepsItsWholeChunks) {
  auto writer = Writer::Create(file_, {.chunk_raw_bytes = 250'000});
  ASSERT_TRUE(writer.has_value());
  RandomEvents random(4);
  std::map<uint64_t, uint64_t> events_at_size = {{0, 0}};  // Whole events of a file of at least that size.
  for (uint64_t i = 1; i <= 20'000; ++i) {
    writer->Append(random.Make());
    const uint64_t size = writer->totals().file_bytes;
    if (size != events_at_size.rbegin()->first) events_at_size[size] = i;
  }
  ASSERT_TRUE(writer->Flush().has_value());
  events_at_size[writer->totals().file_bytes] = 20'000;
  ASSERT_TRUE(writer->Close().has_value());
  // The file's header is the first of the sizes, and holds nothing.
  events_at_size[kFileHeaderBytes] = 0;
  const std::string bytes = ReadFile(file_).value();
  ASSERT_GT(events_at_size.size(), 10U);
  std::vector<size_t> cuts(10'000);
  for (size_t& cut : cuts) cut = random.Below(bytes.size());
  std::ranges::sort(cuts, std::greater());
  PatchedFile file(bytes);
  for (size_t i = 0; i < cuts.size(); ++i) {
    file.CutTo(cuts[i]);
    const auto reader = Reader::Open(file.path());
    ASSERT_TRUE(reader.has_value()) << cuts[i];
    const uint64_t expected = std::prev(events_at_size.upper_bound(cuts[i]))->second;
    ASSERT_EQ(reader->summary().event_count, expected) << cuts[i];
    if (i % 500 != 0) continue;
    uint64_t count = 0;
    reader->ForEach({}, [&](const event::Event&) { ++count; });
    EXPECT_EQ(count, expected) << cuts[i];
  }
}

// --- what is written is what is read ---
constexpr size_t kKinds = std::variant_size_v<event::Payload>;

TEST_F(ProofTest, ExtremeEventsOfEveryKindComeBackThroughSegmentsAndRepair) {
  for (const uint64_t seed : {1, 2, 3}) {
    const TemporaryDirectory directory;
    auto writer = SegmentedWriter::Create(directory.path(), {.max_bytes = 16 << 20});
    ASSERT_TRUE(writer.has_value());
    RandomEvents random(seed, RandomEvents::Values::kExtreme);
    Prints written;
    for (size_t i = 0; i < 16 * kKinds; ++i) {
      event::Event event = random.Make(i % kKinds);
      if (i % 5 == 0) event.envelope.ts_ns = i % 2 == 0 ? 0 : UINT64_MAX;
      if (i % 7 == 0) event.envelope.pid = event.envelope.tid = UINT32_MAX;
      event.envelope.seq = writer->next_seq();
      writer->Append(event);
      written.emplace(event.envelope.seq, Fingerprint::Of(event));
    }
    ASSERT_TRUE(writer->Close().has_value());
    EXPECT_EQ(writer->stats().trimmed_event_count, 0U);
    const std::vector<uint32_t> numbers = ListSegments(directory.path());
    EXPECT_GT(numbers.size(), 1U) << "the events should fill several files";
    Prints read;
    Prints read_repaired;
    for (const uint32_t number : numbers) {
      const std::filesystem::path file = directory.path() / SegmentName(number);
      const auto verified = VerifyFile(file, false);
      ASSERT_TRUE(verified.has_value());
      EXPECT_EQ(verified->fault_count, 0U);
      read.merge(ReadAll(file));
      const std::filesystem::path repaired = file.native() + ".again";
      ASSERT_TRUE(RepairFile(file, repaired).has_value());
      EXPECT_TRUE(ReadFile(repaired).value() == ReadFile(file).value())
          << "a sound file is copied byte for byte";
      read_repaired.merge(ReadAll(repaired));
    }
    // A later file begins with the scopes that are open, told again.
    const auto is_told_again = [&](const auto& print) { return !written.contains(print.first); };
    std::erase_if(read, is_told_again);
    std::erase_if(read_repaired, is_told_again);
    EXPECT_TRUE(read == written) << "seed " << seed;
    EXPECT_TRUE(read_repaired == written) << "seed " << seed;
  }
}

}  // namespace
}  // namespace smeltr::session
