#include "session/chunk_file.h"

#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "session/reader.h"
#include "session/writer.h"
#include "unit/session/random_events.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::Fingerprint;
using testing::RandomEvents;
using testing::TemporaryDirectory;
using Chunk = std::vector<std::byte>;

std::map<uint64_t, std::string> ReadAll(const std::filesystem::path& file) {
  std::map<uint64_t, std::string> prints;
  const auto reader = Reader::Open(file);
  EXPECT_TRUE(reader.has_value());
  EXPECT_FALSE(reader->damage().any());
  EXPECT_FALSE(reader->damage().no_footer);
  reader->ForEach({}, [&](const event::Event& event) {
    EXPECT_TRUE(prints.emplace(event.envelope.seq, Fingerprint::Of(event)).second);
  });
  return prints;
}

class ChunkFileTest : public ::testing::Test {
 protected:
  // Keeps what on_sealed shows.
  WriterOptions Observed(uint64_t first_seq = 1) {
    return {.chunk_raw_bytes = 4000, .first_seq = first_seq, .on_sealed = [this](const SealedChunk& chunk) {
              chunks_.emplace_back(chunk.bytes.begin(), chunk.bytes.end());
              sealed_events_ += chunk.event_count;
              EXPECT_LE(chunk.min_ts_ns, chunk.max_ts_ns);
            }};
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "events.smlt";
  std::filesystem::path copy_ = directory_.path() / "copy.smlt";
  RandomEvents random_{11};
  std::vector<Chunk> chunks_;
  uint64_t sealed_events_ = 0;
};

TEST_F(ChunkFileTest, SealedChunksMakeTheSameFileAgain) {
  auto writer = Writer::Create(file_, Observed());
  ASSERT_TRUE(writer.has_value());
  for (int i = 0; i < 2000; ++i) writer->Append(random_.Make());
  ASSERT_TRUE(writer->Close().has_value());
  EXPECT_GT(chunks_.size(), 5U);
  EXPECT_EQ(sealed_events_, 2000U);

  auto copy = ChunkFileWriter::Create(copy_);
  ASSERT_TRUE(copy.has_value());
  for (const Chunk& chunk : chunks_) ASSERT_TRUE(copy->Append(chunk).has_value());
  ASSERT_TRUE(copy->Close().has_value());
  EXPECT_EQ(copy->stats().event_count, 2000U);
  EXPECT_EQ(copy->stats().counts_by_kind, writer->stats().counts_by_kind);
  EXPECT_EQ(copy->stats().file_bytes, std::filesystem::file_size(copy_));
  EXPECT_EQ(ReadAll(copy_), ReadAll(file_));
  const auto reader = Reader::Open(file_);
  EXPECT_EQ(copy->stats().min_ts_ns, reader->summary().min_ts_ns);
  EXPECT_EQ(copy->stats().max_ts_ns, reader->summary().max_ts_ns);
}

TEST_F(ChunkFileTest, WhatIsNoWholeChunkIsRefusedAndNotWritten) {
  auto writer = Writer::Create(file_, Observed());
  for (int i = 0; i < 10; ++i) writer->Append(random_.Make());
  ASSERT_TRUE(writer->Flush().has_value());
  ASSERT_EQ(chunks_.size(), 1U);
  auto copy = ChunkFileWriter::Create(copy_);
  Chunk shorter(chunks_[0].begin(), chunks_[0].end() - 1);
  Chunk longer = chunks_[0];
  longer.push_back({});
  Chunk changed = chunks_[0];
  changed[20] ^= std::byte{1};
  for (const Chunk& bad : {shorter, longer, changed, Chunk(), Chunk(10)}) {
    const auto refused = copy->Append(bad);
    ASSERT_FALSE(refused.has_value());
    EXPECT_EQ(refused.error().code(), ErrorCode::kCorrupt);
  }
  ASSERT_TRUE(copy->Append(chunks_[0]).has_value());
  ASSERT_TRUE(copy->Close().has_value());
  EXPECT_EQ(ReadAll(copy_).size(), 10U);
}

TEST_F(ChunkFileTest, SequenceNumbersGoOnFromWhereTheWriterIsTold) {
  auto writer = Writer::Create(file_, Observed(501));
  EXPECT_EQ(writer->next_seq(), 501U);
  for (int i = 0; i < 3; ++i) writer->Append(random_.Make());
  EXPECT_EQ(writer->next_seq(), 504U);
  ASSERT_TRUE(writer->Close().has_value());
  const auto events = ReadAll(file_);
  EXPECT_EQ(events.begin()->first, 501U);
  EXPECT_EQ(events.rbegin()->first, 503U);
}

TEST_F(ChunkFileTest, TheSyncOutlivesTheWriter) {
  std::function<Result<void>()> sync;
  {
    auto writer = Writer::Create(file_, {});
    writer->Append(random_.Make());
    ASSERT_TRUE(writer->Close(FileSync::kNone).has_value());
    sync = writer->SyncTask();
  }
  EXPECT_TRUE(sync().has_value());
}

TEST_F(ChunkFileTest, ADyingProcessSealsWhatIsPendingUnlessItDiedInTheMiddle) {
  auto writer = Writer::Create(file_, {});
  writer->Append(random_.Make());
  writer->FlushIfIdle();
  EXPECT_EQ(Reader::Open(file_)->summary().event_count, 1U);
  // In the observer the writer is in the middle of a change.
  const std::filesystem::path other = directory_.path() / "other.smlt";
  Writer* inner = nullptr;
  int seals = 0;
  auto observed = Writer::Create(other, {.on_sealed = [&](const SealedChunk&) {
                                   ++seals;
                                   inner->FlushIfIdle();
                                 }});
  inner = &*observed;
  observed->Append(random_.Make());
  ASSERT_TRUE(observed->Flush().has_value());
  EXPECT_EQ(seals, 1);
  EXPECT_EQ(Reader::Open(other)->summary().event_count, 1U);
}

}  // namespace
}  // namespace smeltr::session
