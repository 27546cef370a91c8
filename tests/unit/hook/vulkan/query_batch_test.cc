#include "hook/vulkan/query_batch.h"

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {
namespace {

// A driver whose query q of pool p holds p * 1000 + q, but for those that are odd multiples of five.
std::vector<std::pair<uint32_t, uint32_t>> g_calls;

VkQueryPool Pool(uint64_t number) { return reinterpret_cast<VkQueryPool>(number); }

VKAPI_ATTR VkResult VKAPI_CALL FakeResults(VkDevice, VkQueryPool pool, uint32_t first, uint32_t count, size_t,
                                           void* data, VkDeviceSize, VkQueryResultFlags) {
  g_calls.emplace_back(first, count);
  auto* values = static_cast<uint64_t*>(data);
  for (uint32_t i = 0; i < count; ++i) {
    values[2 * i] = HandleKey(pool) * 1000 + first + i;
    values[2 * i + 1] = (first + i) % 10 == 5 ? 0 : 1;
  }
  return VK_NOT_READY;
}

class QueryBatchTest : public testing::Test {
 protected:
  QueryBatchTest() : device_(DeviceTraits{}) {
    device_.next.GetQueryPoolResults = FakeResults;
    g_calls.clear();
  }
  size_t Add(uint64_t pool, uint32_t first, uint32_t count) {
    size_t at = 0;
    EXPECT_TRUE(batch_.Add({.pool = Pool(pool), .first = first, .count = count}, at));
    return at;
  }

  Device device_;
  QueryBatch batch_;
};

TEST_F(QueryBatchTest, NeighboursAreOneCall) {
  const size_t c = Add(1, 4, 2);
  const size_t a = Add(1, 0, 2);
  const size_t b = Add(1, 2, 2);
  batch_.Read(device_);
  EXPECT_EQ(g_calls, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 6}}));
  EXPECT_EQ(batch_.ticks(a), 1000U);
  EXPECT_EQ(batch_.ticks(b), 1002U);
  EXPECT_EQ(batch_.ticks(c), 1004U);
  EXPECT_EQ(batch_.ticks(c + 1), 0U);  // 5 was not available.
}

// Nothing but what was asked for: what lies between may just be reset by its owner.
TEST_F(QueryBatchTest, GapsAndOtherPoolsAreOtherCalls) {
  const size_t a = Add(1, 0, 2);
  const size_t b = Add(1, 4, 1);
  const size_t c = Add(2, 2, 2);
  batch_.Read(device_);
  EXPECT_EQ(g_calls, (std::vector<std::pair<uint32_t, uint32_t>>{{0, 2}, {4, 1}, {2, 2}}));
  EXPECT_EQ(batch_.ticks(a + 1), 1001U);
  EXPECT_EQ(batch_.ticks(b), 1004U);
  EXPECT_EQ(batch_.ticks(c), 2002U);
}

TEST_F(QueryBatchTest, ALostDeviceIsNotAsked) {
  const size_t at = Add(1, 0, 2);
  device_.lost.store(true);
  batch_.Read(device_);
  EXPECT_TRUE(g_calls.empty());
  EXPECT_EQ(batch_.ticks(at), 0U);
}

TEST_F(QueryBatchTest, ClearBeginsAnew) {
  Add(1, 0, 2);
  batch_.Clear();
  const size_t at = Add(1, 8, 2);
  batch_.Read(device_);
  EXPECT_EQ(g_calls, (std::vector<std::pair<uint32_t, uint32_t>>{{8, 2}}));
  EXPECT_EQ(batch_.ticks(at), 1008U);
}

}  // namespace
}  // namespace smeltr::hook::vulkan
