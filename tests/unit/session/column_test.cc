// Columns beside other columns, values that share a factor, and lists whose elements share shapes.
#include <gtest/gtest.h>

#include <optional>
#include <vector>

#include "session/block_builder.h"
#include "session/block_decoder.h"

namespace smeltr::session {
namespace {

class ColumnTest : public ::testing::Test {
 protected:
  size_t StoredBytes(std::vector<uint64_t> values) {
    out_.Clear();
    const std::vector<uint64_t> expected = values;
    EncodeColumn(values, compressor_, scratch_, out_);
    ByteReader in(out_.view());
    ColumnCursor cursor;
    EXPECT_TRUE(cursor.Open(in, expected.size(), decompressor_));
    std::vector<uint64_t> read(expected.size());
    cursor.Next(read);
    EXPECT_EQ(read, expected);
    // And again from the start.
    cursor.Rewind();
    std::ranges::fill(read, 0);
    cursor.Next(read);
    EXPECT_EQ(read, expected);
    return out_.size();
  }

  Compressor compressor_{1};
  Decompressor decompressor_;
  ByteBuffer scratch_;
  ByteBuffer out_;
};

std::vector<uint64_t> Scattered(size_t count, uint64_t limit, uint64_t factor, uint64_t base) {
  std::vector<uint64_t> values(count);
  uint64_t state = 1;
  for (uint64_t& value : values) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    value = base + (state >> 33) % limit * factor;
  }
  return values;
}

TEST_F(ColumnTest, ACommonFactorIsTakenOut) {
  for (const uint64_t factor : {2U, 32U, 3U, 125U, 96U, 1'000'000U}) {
    // One byte a value, whatever the clock's tick.
    EXPECT_LT(StoredBytes(Scattered(1000, 256, factor, 12'345)), 1030U) << factor;
  }
  // One value off the grid.
  std::vector<uint64_t> values = Scattered(1000, 256, 125, 0);
  values[500] += 1;
  StoredBytes(values);
  values[500] = UINT64_MAX;
  StoredBytes(values);
}

class NearColumnTest : public ColumnTest {
 protected:
  // Stored beside `near`, or nothing when it was stored by itself; in either case it must come back.
  std::optional<size_t> StoredNear(std::vector<uint64_t> values, const std::vector<uint64_t>& near) {
    out_.Clear();
    const std::vector<uint64_t> expected = values;
    const NearColumn near_column{5, near};
    EncodeColumn(values, &near_column, compressor_, scratch_, out_);
    ByteReader in(out_.view());
    ColumnCursor cursor;
    EXPECT_TRUE(cursor.Open(in, expected.size(), decompressor_));
    EXPECT_EQ(cursor.near_column(), ColumnCursor::NearColumnOf(out_.view()));
    std::vector<uint64_t> read(expected.size());
    cursor.Next(read);
    if (cursor.near_column()) {
      EXPECT_EQ(*cursor.near_column(), 5U);
      for (size_t i = 0; i < read.size(); ++i) read[i] += near[i];
    }
    EXPECT_EQ(read, expected);
    return cursor.near_column() ? std::optional(out_.size()) : std::nullopt;
  }
};

TEST_F(NearColumnTest, OnlyDistancesAreStored) {
  const std::vector<uint64_t> begins = Scattered(1000, 1U << 30, 1, 1U << 30);
  const std::vector<uint64_t> jitter = Scattered(1000, 256, 32, 0);
  for (const int64_t away : {int64_t{0}, int64_t{70'000}, int64_t{-70'000}}) {
    std::vector<uint64_t> values = begins;
    for (size_t i = 0; i < values.size(); ++i) values[i] += jitter[i] + static_cast<uint64_t>(away);
    const std::optional<size_t> bytes = StoredNear(values, begins);
    ASSERT_TRUE(bytes.has_value()) << away;
    EXPECT_LT(*bytes, 1040U) << away;
  }
}

TEST_F(NearColumnTest, EqualDistancesTakeNoBytes) {
  const std::vector<uint64_t> begins = Scattered(1000, 1U << 30, 1, 1U << 30);
  std::vector<uint64_t> values = begins;
  for (uint64_t& value : values) value -= 2;
  const std::optional<size_t> bytes = StoredNear(values, begins);
  ASSERT_TRUE(bytes.has_value());
  EXPECT_LT(*bytes, 20U);
}

TEST_F(NearColumnTest, WhatIsNotNearStandsByItself) {
  const std::vector<uint64_t> begins = Scattered(1000, 1U << 30, 1, 1U << 30);
  EXPECT_EQ(StoredNear(Scattered(1000, 200, 1, 0), begins), std::nullopt);
}

// --- blocks that refer to columns and shapes that are not there ---
class ShapesTest : public ColumnTest {
 protected:
  static constexpr uint32_t kEvents = 40;

  std::vector<std::byte> Encode() {
    const Schema& schema = *FindSchema(event::Kind::kCbOps);
    BlockBuilder builder(schema);
    TextTable texts;
    std::vector<event::OpSample> ops(5);
    for (size_t i = 0; i < ops.size(); ++i) {
      ops[i].count = static_cast<uint32_t>(i % 3 + 1);
      ops[i].gpu_ns = 1000 * (i % 3) * (i % 3);
    }
    for (uint64_t i = 0; i < kEvents; ++i) builder.Append({.seq = i * i}, event::CbOps{.ops = ops}, texts);
    ByteBuffer out;
    builder.Encode(compressor_, scratch_, out);
    return {out.view().begin(), out.view().end()};
  }

  // The sum of all counts and times, or nothing for a block that is refused.
  std::optional<uint64_t> Sum(const std::vector<std::byte>& bytes) {
    const BlockEntry entry{.kind_number = 44, .event_count = kEvents};
    if (!decoder_.Open(entry, *FindSchema(event::Kind::kCbOps), bytes, texts_, decompressor_)) return {};
    uint64_t sum = 0;
    while (const size_t count = decoder_.NextBatch()) {
      const auto* rows = reinterpret_cast<const event::CbOps*>(decoder_.rows());
      for (size_t i = 0; i < count; ++i) {
        for (const event::OpSample& op : rows[i].ops) sum += op.count + op.gpu_ns;
      }
    }
    if (!decoder_.ok()) return {};
    return sum;
  }

  StoredTexts texts_;
  BlockDecoder decoder_;
};

TEST_F(ShapesTest, ElementsComeBackFromTheirShapes) {
  // Counts 1 2 3 1 2; times 0 1000 4000 0 1000.
  EXPECT_EQ(Sum(Encode()), uint64_t{kEvents} * (9 + 6000));
}

TEST_F(ShapesTest, AnyByteChangedIsSurvived) {
  const std::vector<std::byte> good = Encode();
  size_t refused = 0;
  for (size_t at = 0; at < good.size(); ++at) {
    for (const unsigned flip : {0x01U, 0x02U, 0x80U, 0xffU}) {
      std::vector<std::byte> bytes = good;
      bytes[at] ^= static_cast<std::byte>(flip);
      refused += Sum(bytes) ? 0 : 1;
    }
  }
  EXPECT_GT(refused, good.size() / 2);
}

TEST_F(ShapesTest, AShapeThatIsNotThereIsRefused) {
  const std::vector<std::byte> good = Encode();
  // After five integer columns (seq, time, pid, tid, cb_id) the list: frame, total, lengths, shape count.
  size_t at = 1;
  for (int i = 0; i < 5; ++i) {
    uint32_t length;
    std::memcpy(&length, good.data() + at + 1, sizeof(length));
    at += 5 + length;
  }
  ASSERT_EQ(good[at], static_cast<std::byte>(ColumnType::kList));
  const size_t shape_count = at + 5 + 2 + 2;  // The total takes two bytes, the constant lengths two.
  ASSERT_EQ(good[shape_count], std::byte{3});
  std::vector<std::byte> bytes = good;
  bytes[shape_count] = std::byte{2};
  EXPECT_EQ(Sum(bytes), std::nullopt);
}

}  // namespace
}  // namespace smeltr::session
