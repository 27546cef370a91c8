// The reader against a ring that somebody else scribbles on: it must stay safe, end, and lose no more
// than what was scribbled on. Sanitizers are half of the judge.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <random>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

using fake::Numbers;
using fake::RingPair;

// Overwrites the u32 at the start of the frame at `offset` of the block: its size.
void SetFrameSize(RingPair& ring, uint32_t block, uint32_t offset, uint32_t size) {
  std::memcpy(ring.data(block) + offset, &size, sizeof(size));
}

constexpr uint32_t kNumberFrameBytes = 32;

TEST(Hostile, AFrameWithABadSizeCostsTheRestOfItsBlockOnly) {
  for (const uint32_t size : {0U, 1U, 15U, kBlockBytes, kBlockBytes + 8, UINT32_MAX, UINT32_MAX - 7}) {
    RingPair ring;
    for (uint64_t i = 0; i < 3'000; ++i) ASSERT_TRUE(ring.WriteNumber(i));
    SetFrameSize(ring, 0, 10 * kNumberFrameBytes, size);
    const auto numbers = Numbers(ring.Drain());
    EXPECT_EQ(ring.last().corrupt_frames, 1U);
    constexpr uint64_t kPerBlock = kBlockBytes / kNumberFrameBytes;
    ASSERT_EQ(numbers.size(), 3'000 - kPerBlock + 10) << size;
    EXPECT_EQ(numbers[9], 9U);
    EXPECT_EQ(numbers[10], kPerBlock);
    EXPECT_TRUE(ring.Drain().empty());
  }
}

TEST(Hostile, AFrameThatCannotBeDecodedCostsItselfOnly) {
  RingPair ring;
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(ring.WriteNumber(i));
  // One byte short of its last field.
  SetFrameSize(ring, 0, 10 * kNumberFrameBytes, kNumberFrameBytes - 1);
  EXPECT_EQ(ring.Drain().size(), 99U);
  EXPECT_EQ(ring.last().corrupt_frames, 1U);
}

TEST(Hostile, ImpossiblePositionsAreNotFollowed) {
  for (const uint32_t position : {kBlockBytes + 8, 4U, 33U, UINT32_MAX, UINT32_MAX - 7}) {
    for (const bool closed : {false, true}) {
      RingPair ring(2);
      ASSERT_TRUE(ring.WriteNumber(1));
      if (closed) ring.writer().ReleaseThreadBlock();
      ring.block(0).committed = position;
      EXPECT_TRUE(ring.Drain().empty());
      EXPECT_TRUE(ring.reader().empty());
      ring.block(0).committed = kNumberFrameBytes;
      ring.block(0).consumed = position;
      EXPECT_TRUE(ring.Drain().empty());
      EXPECT_TRUE(ring.reader().empty());
    }
  }
}

TEST(Hostile, ABlockWithBadPositionsIsUsableAgainOnceClosed) {
  RingPair ring(1);
  ASSERT_TRUE(ring.WriteNumber(1));
  ring.block(0).committed = UINT32_MAX;
  ring.writer().ReleaseThreadBlock();
  EXPECT_TRUE(ring.Drain().empty());
  EXPECT_EQ(ring.last().corrupt_frames, 1U);
  ASSERT_TRUE(ring.WriteNumber(2));
  EXPECT_EQ(Numbers(ring.Drain()), std::vector<uint64_t>{2});
}

TEST(Hostile, StatesAndOrdersThatDoNotExistAreIgnored) {
  RingPair ring(3);
  ASSERT_TRUE(ring.WriteNumber(1));
  ring.block(1).state = static_cast<BlockState>(77);
  ring.block(1).committed = 64;
  ring.block(2).state = BlockState::kOwned;
  ring.block(2).order = UINT64_MAX;
  ring.block(2).committed = 64;
  EXPECT_EQ(ring.Drain().size(), 1U);
  EXPECT_TRUE(ring.reader().empty()) << "what is never drained must not count as pending";
}

TEST(Hostile, AStringThatClaimsToBeLongIsEmpty) {
  RingPair ring;
  const uint32_t id = ring.writer().Intern("a name");
  std::byte* length = reinterpret_cast<std::byte*>(&ring.header()) + ring.header().string_table_offset +
                      uint64_t{kStringSlotCount} * sizeof(uint64_t) + (id - 1);
  for (const uint32_t value : {uint32_t{event::kMaxTextBytes} + 1, kStringBytes, UINT32_MAX}) {
    std::memcpy(length, &value, sizeof(value));
    ASSERT_TRUE(ring.writer().Write(event::Api::kNone, event::Mark{.label = {"a name", id}, .fields = {}}));
    std::string label = "?";
    ring.reader().Drain(
        10, [&](const event::Event& event) { label = std::get<event::Mark>(event.payload).label.view; });
    EXPECT_EQ(label, "");
  }
}

TEST(Hostile, ThousandsOfLongTextsInOneFrameAreRefused) {
  RingPair ring;
  const std::string name(1'000, 'n');
  const uint32_t id = ring.writer().Intern(name);
  const std::vector<event::Text> flagged(8'000, event::Text(name, id));
  ASSERT_TRUE(ring.writer().Write(event::Api::kNone, event::ProcTop{.top = {}, .flagged = flagged}));
  ASSERT_TRUE(ring.WriteNumber(1));
  EXPECT_EQ(Numbers(ring.Drain()), std::vector<uint64_t>{1});
  EXPECT_EQ(ring.last().corrupt_frames, 1U);
}

TEST(Hostile, AHeaderChangedAfterMappingDoesNotMoveTheReader) {
  RingPair ring;
  for (uint64_t i = 0; i < 100; ++i) ASSERT_TRUE(ring.WriteNumber(i));
  RingHeader& header = ring.header();
  header.block_count = UINT32_MAX;
  header.blocks_offset = header.total_bytes = header.string_table_offset = UINT64_MAX;
  header.block_bytes = header.string_slot_count = UINT32_MAX;
  header.string_bytes = UINT64_MAX;
  EXPECT_EQ(ring.Drain().size(), 100U);
}

TEST(Hostile, AHeaderChangedBeforeTheReaderTookItIsRefused) {
  RingPair ring;
  ASSERT_TRUE(ring.WriteNumber(1));
  Segment segment = Segment::Map(ring.path().c_str()).value();
  ring.header().block_count = 60'000;
  Reader reader(std::move(segment));
  const DrainResult result = reader.Drain(10, [](const event::Event&) { ADD_FAILURE(); });
  EXPECT_EQ(result.corrupt_frames, 1U);
  EXPECT_TRUE(reader.empty());
  EXPECT_TRUE(reader.closed());
}

TEST(Hostile, ATruncatedFileIsTheEndOfIt) {
  for (const size_t size : {size_t{0}, size_t{4096}, size_t{1 << 20}}) {
    RingPair ring;
    ASSERT_TRUE(ring.WriteNumber(1));
    Reader reader = ring.NewReader();
    ring.writer().ReleaseThreadBlock();
    std::filesystem::resize_file(ring.path(), size);
    DrainResult result = reader.Drain(10, [](const event::Event&) { ADD_FAILURE(); });
    EXPECT_EQ(result.event_count, 0U);
    EXPECT_EQ(result.corrupt_frames, 1U);
    EXPECT_FALSE(result.more);
    EXPECT_TRUE(reader.empty());
    EXPECT_TRUE(reader.closed());
    EXPECT_TRUE(reader.TakeDropped().empty());
    result = reader.Drain(10, [](const event::Event&) { ADD_FAILURE(); });
    EXPECT_EQ(result.corrupt_frames, 0U) << "said once";
  }
}

TEST(Hostile, AFreeHintOfNonsenseIsRepairedByTheReader) {
  RingPair ring(4);
  ring.header().claim_hint = UINT32_MAX;
  EXPECT_FALSE(ring.WriteNumber(0));
  ring.header().claim_hint = 0;
  ASSERT_TRUE(ring.WriteNumber(1));
  ring.writer().ReleaseThreadBlock();
  ring.header().claim_hint = UINT32_MAX;
  EXPECT_EQ(ring.Drain().size(), 1U);
  EXPECT_TRUE(ring.WriteNumber(2));
}

// Bytes at random, at rest: whatever is in there, a drain ends, and after it the ring has nothing more.
TEST(Hostile, RandomDamageIsSurvived) {
  std::mt19937_64 random(7);
  for (int round = 0; round < 60; ++round) {
    RingPair ring(6);
    fake::RandomEvents events(static_cast<uint64_t>(round));
    for (int i = 0; i < 400; ++i) ring.writer().Write(event::Api::kCuda, events.Make<event::CbOps>());
    for (int hit = 0; hit < 200; ++hit) {
      // Block headers, the string table's start, or the blocks themselves.
      const uint64_t areas[] = {sizeof(RingHeader) + random() % (8 * sizeof(BlockHeader)),
                                ring.header().string_table_offset + kStringSlotCount * 8 + random() % 4'096,
                                ring.header().blocks_offset + random() % (6 * kBlockBytes)};
      reinterpret_cast<uint8_t*>(&ring.header())[areas[random() % 3]] = static_cast<uint8_t>(random());
    }
    uint64_t turns = 0;
    do {
      ring.Drain(100);
      ASSERT_LT(++turns, 10'000U);
    } while (ring.last().more);
    EXPECT_TRUE(ring.Drain().empty());
    EXPECT_TRUE(ring.reader().empty());
  }
}

}  // namespace
}  // namespace smeltr::ring
