#include "ipc/stream.h"

#include <gtest/gtest.h>

namespace smeltr::ipc {
namespace {

constexpr const char* kId = "0a1b2c3d-0000-4000-8000-000000000001";

TEST(Stream, BatchComesBack) {
  event::Event event;
  event.envelope = {.ts_ns = 5, .seq = 7, .pid = 1, .tid = 2};
  event.payload = event::Mark{"hello", {}};
  std::vector<std::byte> bytes;
  ASSERT_TRUE(event::AppendOwned(event, bytes));
  const std::string message =
      BatchHeader(kId) + std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const auto item = DecodeStreamItem(message);
  ASSERT_TRUE(item.has_value());
  const auto& batch = std::get<EventBatch>(*item);
  EXPECT_EQ(batch.session_id(), kId);
  int count = 0;
  ASSERT_TRUE(batch
                  .ForEach([&](const event::Event& one) {
                    ++count;
                    EXPECT_EQ(one.envelope, event.envelope);
                    EXPECT_EQ(std::get<event::Mark>(one.payload).label.view, "hello");
                  })
                  .has_value());
  EXPECT_EQ(count, 1);
}

TEST(Stream, EmptyAndCutBatches) {
  const auto empty = DecodeStreamItem(BatchHeader(kId));
  ASSERT_TRUE(empty.has_value());
  EXPECT_TRUE(std::get<EventBatch>(*empty).ForEach([](const event::Event&) { FAIL(); }).has_value());
  const auto cut = DecodeStreamItem(BatchHeader(kId) + "abc");
  ASSERT_TRUE(cut.has_value());
  EXPECT_EQ(std::get<EventBatch>(*cut).ForEach([](const event::Event&) {}).error().code(),
            ErrorCode::kCorrupt);
  EXPECT_FALSE(DecodeStreamItem(BatchHeader(kId).substr(0, 20)).has_value());
  EXPECT_FALSE(DecodeStreamItem("").has_value());
}

}  // namespace
}  // namespace smeltr::ipc
