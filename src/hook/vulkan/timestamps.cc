#include "hook/vulkan/timestamps.h"

#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

bool QueryAllocator::Take(Device& device, uint32_t count, QueryRange& range) {
  const std::lock_guard lock(mutex_);
  std::deque<QueryRange>& spare = count == kPair ? spare_pairs_ : spare_chunks_;
  if (spare.empty() && !AddPool(device, spare, count)) return false;
  range = spare.front();
  spare.pop_front();
  return true;
}

void QueryAllocator::Return(Device& device, QueryRange range) {
  if (range.pool == VK_NULL_HANDLE) return;
  if (range.used && device.traits.host_query_reset) {
    device.next.ResetQueryPool(device.handle, range.pool, range.first, range.count);
    range.used = false;
  }
  const std::lock_guard lock(mutex_);
  (range.count == kPair ? spare_pairs_ : spare_chunks_).push_back(range);
}

bool QueryAllocator::AddPool(Device& device, std::deque<QueryRange>& spare, uint32_t count) {
  VkQueryPoolCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO;
  info.queryType = VK_QUERY_TYPE_TIMESTAMP;
  info.queryCount = kPoolQueries;
  VkQueryPool pool = VK_NULL_HANDLE;
  if (device.next.CreateQueryPool(device.handle, &info, nullptr, &pool) != VK_SUCCESS) return false;
  pools_.push_back(pool);
  if (device.traits.host_query_reset) device.next.ResetQueryPool(device.handle, pool, 0, kPoolQueries);
  for (uint32_t first = 0; first + count <= kPoolQueries; first += count) {
    spare.push_back({.pool = pool, .first = first, .count = count});
  }
  return true;
}

void QueryAllocator::Destroy(Device& device) {
  const std::lock_guard lock(mutex_);
  for (VkQueryPool pool : pools_) device.next.DestroyQueryPool(device.handle, pool, nullptr);
  pools_.clear();
  spare_pairs_.clear();
  spare_chunks_.clear();
}

bool ReadTimestamps(Device& device, const QueryRange& range, uint32_t first, uint32_t count,
                    uint64_t* ticks) {
  struct Result {
    uint64_t ticks;
    uint64_t available;
  };
  std::array<Result, QueryAllocator::kChunk> results;
  if (device.lost.load(std::memory_order_relaxed)) return false;
  const VkResult result = device.next.GetQueryPoolResults(
      device.handle, range.pool, range.first + first, count, count * sizeof(Result), results.data(),
      sizeof(Result), VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WITH_AVAILABILITY_BIT);
  if (result != VK_SUCCESS) return false;
  for (uint32_t i = 0; i < count; ++i) {
    // Some drivers deliver a 0 for a timestamp that they could not take.
    if (results[i].available == 0 || results[i].ticks == 0) return false;
    ticks[i] = results[i].ticks;
  }
  return true;
}

VkFence FenceRing::Take(Device& device) {
  const uint32_t tail = tail_.load(std::memory_order_relaxed);
  if (tail - head_.load(std::memory_order_acquire) >= kCount) return VK_NULL_HANDLE;
  Slot& slot = slots_[tail % kCount];
  if (slot.fence != VK_NULL_HANDLE) {
    return device.next.ResetFences(device.handle, 1, &slot.fence) == VK_SUCCESS ? slot.fence : VK_NULL_HANDLE;
  }
  VkFenceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  if (device.next.CreateFence(device.handle, &info, nullptr, &slot.fence) != VK_SUCCESS)
    return VK_NULL_HANDLE;
  return slot.fence;
}

void FenceRing::Add(uint64_t number) {
  const uint32_t tail = tail_.load(std::memory_order_relaxed);
  slots_[tail % kCount].number = number;
  tail_.store(tail + 1, std::memory_order_release);
}

uint64_t FenceRing::Completed(Device& device, uint64_t known) {
  uint32_t head = head_.load(std::memory_order_relaxed);
  while (head != tail_.load(std::memory_order_acquire)) {
    const Slot& slot = slots_[head % kCount];
    if (device.next.GetFenceStatus(device.handle, slot.fence) != VK_SUCCESS) break;
    known = slot.number;
    head_.store(++head, std::memory_order_release);
  }
  return known;
}

void FenceRing::Destroy(Device& device) {
  for (Slot& slot : slots_) {
    if (slot.fence != VK_NULL_HANDLE) device.next.DestroyFence(device.handle, slot.fence, nullptr);
    slot.fence = VK_NULL_HANDLE;
  }
}

}  // namespace smeltr::hook::vulkan
