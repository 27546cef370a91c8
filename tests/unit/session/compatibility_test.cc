// Files of older and newer writers, and blocks that break the rules.
#include <gtest/gtest.h>

#include <fstream>
#include <random>
#include <vector>

#include "session/block_builder.h"
#include "session/block_decoder.h"
#include "session/reader.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::TemporaryDirectory;

// --- numbers ---
class NumbersTest : public ::testing::Test {
 protected:
  std::vector<uint64_t> RoundTrip(std::vector<uint64_t> values, size_t piece) {
    const size_t count = values.size();
    out_.Clear();
    EncodeColumn(values, compressor_, scratch_, out_);
    ByteReader in(out_.view());
    ColumnCursor cursor;
    EXPECT_TRUE(cursor.Open(in, count, decompressor_));
    EXPECT_EQ(in.remaining(), 0U);
    std::vector<uint64_t> read(count);
    for (size_t done = 0; done < count; done += piece) {
      cursor.Next(std::span(read).subspan(done, std::min(piece, count - done)));
    }
    return read;
  }

  Compressor compressor_{1};
  Decompressor decompressor_;
  ByteBuffer scratch_;
  ByteBuffer out_;
};

TEST_F(NumbersTest, AnyNumbersComeBack) {
  std::mt19937_64 random(3);
  for (unsigned bits = 0; bits <= 64; ++bits) {
    for (const size_t count : {size_t{1}, size_t{2}, size_t{700}}) {
      std::vector<uint64_t> plain(count);
      std::vector<uint64_t> rising(count);
      uint64_t last = random();
      for (size_t i = 0; i < count; ++i) {
        plain[i] = bits == 0 ? 5 : random() >> (64 - bits);
        rising[i] = last += plain[i] - 3;  // Wraps around for many bits.
      }
      EXPECT_EQ(RoundTrip(plain, 256), plain) << bits;
      EXPECT_EQ(RoundTrip(rising, 100), rising) << bits;
    }
  }
}

TEST_F(NumbersTest, RegularColumnsTakeAFewBytes) {
  std::vector<uint64_t> constant(10'000, 77);
  EXPECT_EQ(RoundTrip(constant, 256), constant);
  EXPECT_LT(out_.size(), 4U);
  std::vector<uint64_t> steps(10'000);
  for (size_t i = 0; i < steps.size(); ++i) steps[i] = 1'000'000 - 3 * i;
  EXPECT_EQ(RoundTrip(steps, 256), steps);
  EXPECT_LT(out_.size(), 10U);
}

TEST_F(NumbersTest, BadBytesAreRefused) {
  std::vector<uint64_t> values = {1, 500, 70'000};
  EncodeColumn(values, compressor_, scratch_, out_);
  const std::vector<std::byte> good(out_.view().begin(), out_.view().end());
  const auto opens = [&](std::vector<std::byte> bytes, size_t count) {
    ByteReader in(bytes);
    ColumnCursor cursor;
    return cursor.Open(in, count, decompressor_);
  };
  EXPECT_TRUE(opens(good, 3));
  EXPECT_FALSE(opens(good, 4));
  EXPECT_FALSE(opens({good.begin(), good.end() - 1}, 3));
  auto transform = good;
  transform[0] = std::byte{4};
  EXPECT_FALSE(opens(transform, 3));
  // Transform plain, base 0, factor 1, width 9.
  EXPECT_FALSE(opens({std::byte{1}, std::byte{0}, std::byte{1}, std::byte{9}, std::byte{0}}, 0));
}

// --- blocks ---
class BlockTest : public ::testing::Test {
 protected:
  static constexpr uint32_t kEvents = 3;

  // CbWarning: cb_id, queue_id, elapsed_ns, last_op.
  std::vector<std::byte> Encode() {
    BlockBuilder builder(*FindSchema(event::Kind::kCbWarning));
    TextTable texts;
    for (uint64_t i = 1; i <= kEvents; ++i) {
      builder.Append(
          {.ts_ns = 10 * i, .seq = i, .pid = 1, .tid = 2},
          event::CbWarning{.cb_id = event::CbId{i}, .queue_id = event::QueueId{9}, .elapsed_ns = 100 * i * i},
          texts);
    }
    ByteBuffer out;
    builder.Encode(compressor_, scratch_, out);
    return {out.view().begin(), out.view().end()};
  }

  // The elapsed times, or nothing for a block that is refused.
  std::optional<std::vector<uint64_t>> Elapsed(const std::vector<std::byte>& bytes,
                                               uint32_t events = kEvents) {
    const BlockEntry entry{.kind_number = 43, .event_count = events};
    if (!decoder_.Open(entry, *FindSchema(event::Kind::kCbWarning), bytes, texts_, decompressor_)) return {};
    std::vector<uint64_t> elapsed;
    while (const size_t count = decoder_.NextBatch()) {
      const auto* rows = reinterpret_cast<const event::CbWarning*>(decoder_.rows());
      for (size_t i = 0; i < count; ++i) elapsed.push_back(rows[i].elapsed_ns);
    }
    return elapsed;
  }

  // Where column `index` begins in `bytes`.
  static size_t ColumnStart(const std::vector<std::byte>& bytes, size_t index) {
    size_t at = 1;
    for (; index > 0; --index) {
      uint32_t length;
      std::memcpy(&length, bytes.data() + at + 1, sizeof(length));
      at += 1 + sizeof(length) + length;
    }
    return at;
  }

  Compressor compressor_{1};
  Decompressor decompressor_;
  ByteBuffer scratch_;
  StoredTexts texts_;
  BlockDecoder decoder_;
};

TEST_F(BlockTest, FieldsOfANewerWriterAreSkipped) {
  std::vector<std::byte> bytes = Encode();
  ASSERT_EQ(bytes[0], std::byte{8});
  bytes[0] = std::byte{10};
  // One of a known type, one of a type that does not exist yet.
  for (const std::byte type : {std::byte{1}, std::byte{200}}) {
    bytes.insert(bytes.end(),
                 {type, std::byte{2}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{0}, std::byte{7}});
  }
  EXPECT_EQ(Elapsed(bytes), (std::vector<uint64_t>{100, 400, 900}));
}

TEST_F(BlockTest, FieldsThatAnOlderWriterDidNotHaveAreZero) {
  // The decoder's memory is used again: nothing of the earlier block may show through.
  ASSERT_EQ(Elapsed(Encode()), (std::vector<uint64_t>{100, 400, 900}));
  std::vector<std::byte> bytes = Encode();
  bytes.resize(ColumnStart(bytes, 6));
  bytes[0] = std::byte{6};
  EXPECT_EQ(Elapsed(bytes), (std::vector<uint64_t>{0, 0, 0}));
}

TEST_F(BlockTest, AColumnOfAnotherTypeIsRefused) {
  std::vector<std::byte> bytes = Encode();
  bytes[ColumnStart(bytes, 6)] = static_cast<std::byte>(ColumnType::kDouble);
  EXPECT_EQ(Elapsed(bytes), std::nullopt);
}

TEST_F(BlockTest, ABlockWithoutAnEnvelopeIsRefused) {
  std::vector<std::byte> bytes = Encode();
  bytes[0] = std::byte{3};
  EXPECT_EQ(Elapsed(bytes), std::nullopt);
  EXPECT_EQ(Elapsed({}), std::nullopt);
}

TEST_F(BlockTest, MoreEventsThanTheColumnsHaveIsRefused) {
  EXPECT_EQ(Elapsed(Encode(), kEvents + 1), std::nullopt);
}

TEST_F(BlockTest, CutAnywhereABlockIsRefused) {
  const std::vector<std::byte> bytes = Encode();
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_EQ(Elapsed({bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)}), std::nullopt) << size;
  }
}

TEST_F(BlockTest, ListsLongerThanTheirElementsAreRefused) {
  BlockBuilder builder(*FindSchema(event::Kind::kSignalCaught));
  TextTable texts;
  const std::vector<uint64_t> frames = {1, 2};
  for (int i = 0; i < 2; ++i) builder.Append({}, event::SignalCaught{.native_frames = frames}, texts);
  ByteBuffer out;
  builder.Encode(compressor_, scratch_, out);
  std::vector<std::byte> bytes(out.view().begin(), out.view().end());
  const BlockEntry entry{.kind_number = 20, .event_count = 2};
  const Schema& schema = *FindSchema(event::Kind::kSignalCaught);
  ASSERT_TRUE(decoder_.Open(entry, schema, bytes, texts_, decompressor_));
  EXPECT_EQ(decoder_.NextBatch(), 2U);
  // signal, address, native_frames: total (4), then the counts, constant 2. Two of 3 do not fit in 4.
  const size_t list = ColumnStart(bytes, 4 + 2) + 5;
  ASSERT_EQ(bytes[list], std::byte{4});
  ASSERT_EQ(bytes[list + 2], std::byte{2});
  bytes[list + 2] = std::byte{3};
  ASSERT_TRUE(decoder_.Open(entry, schema, bytes, texts_, decompressor_));
  EXPECT_EQ(decoder_.NextBatch(), 0U);
  EXPECT_FALSE(decoder_.ok());
}

// --- kinds ---
TEST(Kinds, OfANewerWriterAreCountedAndSkipped) {
  ByteBuffer file;
  file.PutText(kFileMagic);
  file.Put(kFormatMajor);
  file.Put(kFormatMinor);
  file.Put(uint32_t{0});
  Compressor compressor(1);
  ByteBuffer scratch;
  ByteBuffer body;
  TextTable texts;
  texts.Encode(compressor, scratch, body);
  ChunkHeader header;
  header.text_stored_bytes = static_cast<uint32_t>(body.size());
  header.text_checksum = Checksum(body.view());
  BlockBuilder builder(*FindSchema(event::Kind::kFrameBoundary));
  builder.Append({.seq = 1}, event::FrameBoundary{}, texts);
  const size_t start = body.size();
  builder.Encode(compressor, scratch, body);
  const std::vector<std::byte> block(body.view().begin() + static_cast<ptrdiff_t>(start), body.view().end());
  // The same block twice: as the kind it is, and as one that does not exist yet.
  body.PutBytes(block);
  for (const uint16_t kind : {uint16_t{63}, uint16_t{900}}) {
    header.blocks.push_back({.kind_number = kind,
                             .event_count = 1,
                             .stored_bytes = static_cast<uint32_t>(block.size()),
                             .checksum = Checksum(block)});
  }
  header.event_count = 2;
  header.body_bytes = static_cast<uint32_t>(body.size());
  EncodeChunkHeader(header, file);
  file.PutBytes(body.view());

  const TemporaryDirectory directory;
  const std::filesystem::path path = directory.path() / "events.smlt";
  std::ofstream(path, std::ios::binary)
      .write(reinterpret_cast<const char*>(file.view().data()), static_cast<std::streamsize>(file.size()));
  const auto reader = Reader::Open(path);
  ASSERT_TRUE(reader.has_value());
  int events = 0;
  reader->ForEach({}, [&](const event::Event& event) {
    EXPECT_EQ(event::KindOf(event.payload), event::Kind::kFrameBoundary);
    ++events;
  });
  EXPECT_EQ(events, 1);
  EXPECT_EQ(reader->summary().event_count, 2U);
  EXPECT_EQ(reader->damage().unknown_kind_events, 1U);
  EXPECT_FALSE(reader->damage().any());
}

}  // namespace
}  // namespace smeltr::session
