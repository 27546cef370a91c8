// What a cut-off or damaged file costs: never more than what was damaged, and always reported.
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <map>

#include "session/format.h"
#include "session/reader.h"
#include "session/writer.h"
#include "unit/session/patched_file.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::Fingerprint;
using testing::PatchedFile;
using testing::RandomEvents;
using testing::TemporaryDirectory;

using Prints = std::map<uint64_t, std::string>;

constexpr size_t kLostBytes = 4096;

std::string ReadBytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteBytes(const std::filesystem::path& file, std::string_view bytes) {
  std::ofstream(file, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

Prints ReadAll(const Reader& reader) {
  Prints prints;
  reader.ForEach(
      {}, [&](const event::Event& event) { prints.emplace(event.envelope.seq, Fingerprint::Of(event)); });
  return prints;
}

class DamageTest : public ::testing::Test {
 protected:
  // A file of `chunk_count` chunks of 12 events; keeps where each chunk ends.
  void Write(size_t chunk_count, bool close) {
    auto writer = Writer::Create(file_, {});
    ASSERT_TRUE(writer.has_value());
    RandomEvents random(11);
    chunk_ends_ = {kFileHeaderBytes};
    for (size_t i = 0; i < chunk_count; ++i) {
      for (int j = 0; j < 12; ++j) {
        event::Event event = random.Make();
        writer->Append(event);
        event.envelope.seq = writer->stats().event_count;
        prints_.emplace(event.envelope.seq, Fingerprint::Of(event));
      }
      ASSERT_TRUE(writer->Flush().has_value());
      chunk_ends_.push_back(writer->stats().file_bytes);
    }
    if (close) {
      ASSERT_TRUE(writer->Close().has_value());
    }
    bytes_ = ReadBytes(file_);
  }

  Result<Reader> OpenBytes(std::string_view bytes) {
    WriteBytes(copy_, bytes);
    return Reader::Open(copy_);
  }

  // The events of the first `chunk_count` chunks.
  Prints Prefix(size_t chunk_count) { return {prints_.begin(), prints_.lower_bound(chunk_count * 12 + 1)}; }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "events.smlt";
  std::filesystem::path copy_ = directory_.path() / "copy.smlt";
  std::vector<uint64_t> chunk_ends_;
  Prints prints_;
  std::string bytes_;
};

TEST_F(DamageTest, CutAnywhereTheWholeChunksBeforeAreRead) {
  Write(3, true);
  PatchedFile file(bytes_);
  for (size_t size = bytes_.size(); size-- > 0;) {
    file.CutTo(size);
    const auto reader = Reader::Open(file.path());
    ASSERT_TRUE(reader.has_value()) << "cut at " << size;
    const auto whole = std::ranges::upper_bound(chunk_ends_, size) - chunk_ends_.begin();
    const size_t chunks = whole == 0 ? 0 : static_cast<size_t>(whole) - 1;
    ASSERT_TRUE(ReadAll(*reader) == Prefix(chunks)) << "cut at " << size;
    EXPECT_TRUE(reader->damage().no_footer);
    const bool whole_or_footer = size == 0 || std::ranges::binary_search(chunk_ends_, size) ||
                                 size >= chunk_ends_.back() + kFooterMagic.size();
    EXPECT_EQ(reader->damage().torn_tail, !whole_or_footer) << "cut at " << size;
  }
}

TEST_F(DamageTest, AFlippedBitCostsAtMostItsChunk) {
  Write(4, true);
  RandomEvents random(1);
  for (int round = 0; round < 3000; ++round) {
    std::string bytes = bytes_;
    const size_t at = random.Below(bytes.size());
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(8)));
    const auto reader = OpenBytes(bytes);
    ASSERT_TRUE(reader.has_value()) << at;
    const Prints read = ReadAll(*reader);
    // What came is true, and what is missing is of one chunk, and told.
    EXPECT_TRUE(std::ranges::includes(prints_, read)) << at;
    const auto after = std::ranges::upper_bound(chunk_ends_, at) - chunk_ends_.begin();
    for (const auto& [seq, print] : prints_) {
      if (read.contains(seq)) continue;
      ASSERT_EQ((seq - 1) / 12 + 1, static_cast<size_t>(after)) << at;
    }
    if (read.size() != prints_.size()) {
      EXPECT_TRUE(reader->damage().any()) << at;
    }
  }
}

TEST_F(DamageTest, AFlippedBitInAnUnclosedFileIsSteppedOver) {
  Write(4, false);
  for (size_t at = kFileHeaderBytes; at < bytes_.size(); at += 3) {
    std::string bytes = bytes_;
    bytes[at] = static_cast<char>(bytes[at] ^ 0x10);
    const auto reader = OpenBytes(bytes);
    ASSERT_TRUE(reader.has_value());
    const Prints read = ReadAll(*reader);
    EXPECT_TRUE(std::ranges::includes(prints_, read));
    const auto after = static_cast<size_t>(std::ranges::upper_bound(chunk_ends_, at) - chunk_ends_.begin());
    size_t missing_elsewhere = 0;
    for (const auto& [seq, print] : prints_)
      missing_elsewhere += !read.contains(seq) && (seq - 1) / 12 + 1 != after;
    EXPECT_EQ(missing_elsewhere, 0U) << at;
    EXPECT_TRUE(reader->damage().any()) << at;
  }
}

TEST_F(DamageTest, RubbishBetweenChunksIsSteppedOver) {
  Write(3, false);
  std::string bytes = bytes_;
  // Holds the magic of a chunk without being one.
  bytes.insert(chunk_ends_[1],
               "rubbish smltCHNK smltCHNKmore rubbish that is longer than the fixed part of a header");
  bytes.insert(chunk_ends_[0], "x");
  const auto reader = OpenBytes(bytes);
  ASSERT_TRUE(reader.has_value());
  EXPECT_TRUE(ReadAll(*reader) == prints_);
  EXPECT_EQ(reader->damage().skipped_bytes, bytes.size() - bytes_.size());
  EXPECT_EQ(reader->damage().skipped_chunks, 2U);
}

TEST_F(DamageTest, ALostFileHeaderDoesNotLoseTheChunks) {
  Write(2, false);
  std::string bytes = bytes_;
  std::fill_n(bytes.begin(), kFileHeaderBytes, '\0');
  const auto reader = OpenBytes(bytes);
  ASSERT_TRUE(reader.has_value());
  EXPECT_TRUE(ReadAll(*reader) == prints_);
  EXPECT_TRUE(reader->damage().any());
}

TEST_F(DamageTest, ALostFirstPageCostsWhatWasInIt) {
  Write(30, true);
  ASSERT_GT(bytes_.size(), 2 * kLostBytes);
  for (const bool closed : {true, false}) {
    std::string bytes = closed ? bytes_ : bytes_.substr(0, chunk_ends_.back());
    std::fill_n(bytes.begin(), kLostBytes, '\0');
    const auto reader = OpenBytes(bytes);
    ASSERT_TRUE(reader.has_value()) << closed;
    const Prints read = ReadAll(*reader);
    EXPECT_TRUE(std::ranges::includes(prints_, read));
    EXPECT_TRUE(reader->damage().any());
    const auto lost_chunks = std::ranges::lower_bound(chunk_ends_, kLostBytes) - chunk_ends_.begin();
    for (const auto& [seq, print] : prints_) {
      EXPECT_TRUE(read.contains(seq) || seq <= 12 * static_cast<uint64_t>(lost_chunks)) << seq;
    }
  }
}

TEST_F(DamageTest, OtherFilesAreRefused) {
  for (const std::string_view other : {"PNG picture or whatever else it may be", "x", "[metadata]\n"}) {
    const auto reader = OpenBytes(other);
    ASSERT_FALSE(reader.has_value());
    EXPECT_EQ(reader.error().code(), ErrorCode::kCorrupt);
  }
  EXPECT_EQ(Reader::Open(directory_.path()).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(Reader::Open(directory_.path() / "none").error().code(), ErrorCode::kNotFound);
}

TEST_F(DamageTest, AnotherFormatIsRefusedWithAdvice) {
  Write(1, true);
  // A real one, not a flipped bit: its checksum holds, or there is none.
  std::fill_n(bytes_.begin() + kFileHeaderBytes - sizeof(uint32_t), sizeof(uint32_t), '\0');
  for (const auto& [major, advice] :
       {std::pair(kFormatMajor + 1, "upgrade"), std::pair(kFormatMajor - 1, "again")}) {
    bytes_[kFileMagic.size()] = static_cast<char>(major);
    const auto reader = OpenBytes(bytes_);
    ASSERT_FALSE(reader.has_value());
    EXPECT_EQ(reader.error().code(), ErrorCode::kUnsupported);
    EXPECT_NE(reader.error().text().find(advice), std::string_view::npos);
  }
}

TEST_F(DamageTest, DamageIsCountedOnceHoweverOftenItIsRead) {
  Write(2, true);
  bytes_[chunk_ends_[1] - 1] = static_cast<char>(bytes_[chunk_ends_[1] - 1] ^ 1);
  const auto reader = OpenBytes(bytes_);
  ASSERT_TRUE(reader.has_value());
  EXPECT_FALSE(reader->damage().any());
  ReadAll(*reader);
  const uint64_t once = reader->damage().skipped_chunks;
  ReadAll(*reader);
  EXPECT_EQ(once, 1U);
  EXPECT_EQ(reader->damage().skipped_chunks, 1U);
  EXPECT_GT(reader->damage().skipped_bytes, 0U);
}

TEST_F(DamageTest, AFileThatShrinksUnderTheReaderCostsEventsOnly) {
  Write(4, true);
  const auto reader = OpenBytes(bytes_);
  ASSERT_TRUE(reader.has_value());
  std::filesystem::resize_file(copy_, chunk_ends_[2]);
  EXPECT_TRUE(ReadAll(*reader) == Prefix(2));
  EXPECT_TRUE(reader->damage().any());
}

}  // namespace
}  // namespace smeltr::session
