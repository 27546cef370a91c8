#include "event/frame.h"

#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>

#include "fake/frame_bytes.h"

namespace smeltr::event {
namespace {

using fake::FrameBytes;

// A string table of both sides in one.
class Table : public StringSource, public fake::StringNumbers {
 public:
  uint32_t Intern(std::string_view text) override {
    const auto [entry, added] = ids_.try_emplace(std::string(text), static_cast<uint32_t>(ids_.size() + 1));
    if (added) texts_[entry->second] = entry->first;
    return entry->second;
  }
  std::string_view Lookup(uint32_t id) override { return texts_[id]; }

 private:
  std::map<std::string, uint32_t> ids_;
  std::map<uint32_t, std::string> texts_;
};

class FrameTest : public ::testing::Test {
 protected:
  std::vector<std::byte> Encode(const Payload& payload, fake::StringNumbers* strings = nullptr) {
    const size_t size = fake::EncodePayload(Api::kVulkan, 42, payload, strings, encoded_);
    return {encoded_.begin(), encoded_.begin() + static_cast<ptrdiff_t>(size)};
  }
  Result<Event> Decode(std::span<const std::byte> frame) {
    arena_.Reset();
    return DecodeFrame(frame, table_, arena_);
  }
  static void SetSize(std::vector<std::byte>& frame) {
    const auto size = static_cast<uint32_t>(frame.size());
    std::memcpy(frame.data(), &size, sizeof(size));
  }

  std::vector<std::byte> encoded_ = std::vector<std::byte>(1 << 18);
  Table table_;
  std::vector<std::byte> storage_ = std::vector<std::byte>(1 << 18);
  DecodeArena arena_{storage_};
};

TEST_F(FrameTest, EveryKindComesBackAsItWas) {
  fake::RandomEvents random(1);
  for (size_t kind = fake::RandomEvents::kFirstKind; kind < fake::RandomEvents::kKindEnd; ++kind) {
    for (int round = 0; round < 50; ++round) {
      const Payload fields = random.Make(kind);
      for (const auto& frame : {Encode(fields), Encode(fields, &table_)}) {
        const auto event = Decode(frame);
        ASSERT_TRUE(event.has_value()) << event.error().text();
        EXPECT_EQ(event->envelope.ts_ns, 42U);
        EXPECT_EQ(event->envelope.api, Api::kVulkan);
        ASSERT_EQ(event->payload.index(), kind);
        EXPECT_EQ(FrameBytes(event->payload), FrameBytes(fields));
      }
    }
  }
}

TEST_F(FrameTest, RefusesEveryRoomThatIsTooSmallAndWritesNothingBeyondIt) {
  fake::RandomEvents random(2);
  for (size_t kind = fake::RandomEvents::kFirstKind; kind < fake::RandomEvents::kKindEnd; ++kind) {
    const Payload fields = random.Make(kind);
    const auto frame = Encode(fields);
    for (size_t room = 0; room < frame.size(); ++room) {
      std::vector<std::byte> space(room);  // Sanitizers see a write behind its end.
      ASSERT_EQ(fake::EncodePayload(Api::kVulkan, 42, fields, nullptr, space), 0U)
          << room << " of " << frame.size();
    }
    std::vector<std::byte> exact(frame.size());
    EXPECT_EQ(fake::EncodePayload(Api::kVulkan, 42, fields, nullptr, exact), frame.size());
    EXPECT_EQ(exact, frame);
  }
}

TEST_F(FrameTest, FieldsOfAnOlderWriterAreZero) {
  auto frame = Encode(CbCommitted{.cb_id = CbId{5}, .queue_id = QueueId{6}, .queue_depth = 7});
  frame.resize(sizeof(FrameHeader) + sizeof(CbId));
  SetSize(frame);
  const auto event = Decode(frame);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(std::get<CbCommitted>(event->payload).cb_id, CbId{5});
  EXPECT_EQ(std::get<CbCommitted>(event->payload).queue_id, QueueId{});
}

TEST_F(FrameTest, FieldsOfANewerWriterAreIgnored) {
  auto frame = Encode(HeapFree{.heap_id = HeapId{9}});
  frame.resize(frame.size() + 13, std::byte{0xEE});
  SetSize(frame);
  const auto event = Decode(frame);
  ASSERT_TRUE(event.has_value());
  EXPECT_EQ(std::get<HeapFree>(event->payload).heap_id, HeapId{9});
}

TEST_F(FrameTest, UnknownKindsKeepTheirBytes) {
  auto frame = Encode(HeapFree{.heap_id = HeapId{9}});
  const uint16_t kind = 777;
  std::memcpy(frame.data() + 4, &kind, sizeof(kind));
  const auto event = Decode(frame);
  ASSERT_TRUE(event.has_value());
  const auto& opaque = std::get<Opaque>(event->payload);
  EXPECT_EQ(opaque.kind_number, 777);
  EXPECT_EQ(opaque.bytes.size(), frame.size() - sizeof(FrameHeader));
}

TEST_F(FrameTest, UnknownInterfacesBecomeNone) {
  auto frame = Encode(HeapFree{});
  frame[6] = std::byte{200};
  EXPECT_EQ(Decode(frame)->envelope.api, Api::kNone);
}

TEST_F(FrameTest, ASizeThatIsNotTheFramesIsCorrupt) {
  auto frame = Encode(HeapFree{});
  for (const uint32_t size : {0U, 15U, static_cast<uint32_t>(frame.size()) + 1, UINT32_MAX}) {
    std::memcpy(frame.data(), &size, sizeof(size));
    EXPECT_EQ(Decode(frame).error().code(), ErrorCode::kCorrupt) << size;
  }
  for (size_t size = 0; size < sizeof(FrameHeader); ++size) {
    EXPECT_FALSE(Decode(std::span(frame).first(size)).has_value());
  }
}

TEST_F(FrameTest, AFrameThatEndsInsideAFieldIsCorrupt) {
  auto frame = Encode(HeapFree{});
  frame.resize(frame.size() - 1);
  SetSize(frame);
  EXPECT_EQ(Decode(frame).error().code(), ErrorCode::kCorrupt);
}

TEST_F(FrameTest, AListCannotClaimMoreThanTheFrameHasOrTheArenaHolds) {
  const std::vector<int64_t> codes{1, 2, 3};
  auto frame = Encode(MachException{.target_pid = 1, .exception_type = 2, .codes = codes});
  const size_t count_at = sizeof(FrameHeader) + 8;
  for (const uint32_t count : {4U, 1000U, UINT32_MAX}) {
    std::memcpy(frame.data() + count_at, &count, sizeof(count));
    EXPECT_EQ(Decode(frame).error().code(), ErrorCode::kCorrupt) << count;
  }
  const uint32_t honest = 3;
  std::memcpy(frame.data() + count_at, &honest, sizeof(honest));
  std::array<std::byte, 16> little{};
  DecodeArena small(little);
  EXPECT_FALSE(DecodeFrame(frame, table_, small).has_value());
}

TEST_F(FrameTest, InlineTextCannotReachBeyondItsFrame) {
  auto frame = Encode(Mark{.label = "abcdef", .fields = {}});
  const uint32_t reference = kInlineText | 0xFFFF;
  std::memcpy(frame.data() + sizeof(FrameHeader), &reference, sizeof(reference));
  EXPECT_EQ(Decode(frame).error().code(), ErrorCode::kCorrupt);
}

TEST_F(FrameTest, EveryOneByteChangeIsDecodedOrRefused) {
  fake::RandomEvents random(3);
  for (size_t kind = fake::RandomEvents::kFirstKind; kind < fake::RandomEvents::kKindEnd; ++kind) {
    const auto original = Encode(random.Make(kind));
    const size_t step = 1 + original.size() / 300;
    for (size_t at = 0; at < original.size(); at += step) {
      for (const std::byte flip : {std::byte{0x01}, std::byte{0x80}, std::byte{0xFF}}) {
        auto frame = original;
        frame[at] ^= flip;
        const auto event = Decode(frame);  // Sanitizers are the judge.
        if (event.has_value()) FrameBytes(event->payload);
      }
    }
  }
}

TEST_F(FrameTest, LongTextIsCutBetweenCharacters) {
  std::string text(kMaxTextBytes - 1, 'x');
  text += "\xC3\xA9";  // Its second byte would not fit.
  const auto frame = Encode(Mark{.label = std::string_view(text), .fields = {}});
  EXPECT_EQ(std::get<Mark>(Decode(frame)->payload).label.view, text.substr(0, kMaxTextBytes - 1));
}

TEST(CutText, NeverSplitsACharacter) {
  const std::string_view text = "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80";
  EXPECT_EQ(CutText(text, 10).size(), 10U);
  EXPECT_EQ(CutText(text, 9).size(), 6U);
  EXPECT_EQ(CutText(text, 6).size(), 6U);
  EXPECT_EQ(CutText(text, 5).size(), 3U);
  EXPECT_EQ(CutText(text, 2).size(), 1U);
  EXPECT_EQ(CutText(text, 0).size(), 0U);
}

}  // namespace
}  // namespace smeltr::event
