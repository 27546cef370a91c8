#include "hook/vulkan/query_batch.h"

#include <algorithm>

#include "hook/vulkan/handle_map.h"
#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

void QueryBatch::Clear() {
  wanted_.Clear();
  ticks_.Clear();
}

bool QueryBatch::Add(const QueryRange& range, size_t& at) {
  at = ticks_.size();
  for (uint32_t i = 0; i < range.count; ++i) {
    if (!ticks_.Push(0)) return false;
  }
  return wanted_.Push({.pool = range.pool, .first = range.first, .count = range.count, .at = at});
}

void QueryBatch::Read(Device& device) {
  std::sort(wanted_.begin(), wanted_.end(), [](const Wanted& a, const Wanted& b) {
    return a.pool != b.pool ? HandleKey(a.pool) < HandleKey(b.pool) : a.first < b.first;
  });
  for (const Wanted* begin = wanted_.begin(); begin != wanted_.end();) {
    const Wanted* end = begin + 1;
    while (end != wanted_.end() && end->pool == begin->pool && end->first == end[-1].first + end[-1].count) {
      ++end;
    }
    ReadNeighbours(device, begin, end);
    begin = end;
  }
}

void QueryBatch::ReadNeighbours(Device& device, const Wanted* begin, const Wanted* end) {
  if (device.lost.load(std::memory_order_relaxed)) return;
  const uint32_t count = end[-1].first + end[-1].count - begin->first;
  results_.Clear();
  for (uint32_t i = 0; i < count; ++i) {
    if (!results_.Push({})) return;
  }
  const VkResult result = device.next.GetQueryPoolResults(
      device.handle, begin->pool, begin->first, count, count * sizeof(Result), results_.begin(),
      sizeof(Result), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
  // Not ready: some of them.
  if (result != VK_SUCCESS && result != VK_NOT_READY) return;
  for (const Wanted* wanted = begin; wanted != end; ++wanted) {
    for (uint32_t i = 0; i < wanted->count; ++i) {
      const Result& one = results_[wanted->first - begin->first + i];
      ticks_[wanted->at + i] = one.available != 0 ? one.ticks : 0;
    }
  }
}

}  // namespace smeltr::hook::vulkan
