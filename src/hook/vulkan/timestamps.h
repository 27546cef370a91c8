// Queries and fences of our own: handing them out, taking them back, reading them.
#pragma once

#include <vulkan/vulkan.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

namespace smeltr::hook::vulkan {

struct Device;
struct DeviceTable;

struct QueryRange {
  VkQueryPool pool = VK_NULL_HANDLE;
  uint32_t first = 0;
  uint32_t count = 0;
  bool used = false;  // Written since its last reset.
};

// Timestamp queries of a device, in pairs (for a command buffer) and chunks (for points inside one).
// A range belongs to a recording, not to the command buffer handle. Any thread.
class QueryAllocator {
 public:
  static constexpr uint32_t kPoolQueries = 4096;
  static constexpr uint32_t kPair = 2;
  static constexpr uint32_t kChunk = 128;

  // `count`: kPair or kChunk. Reset, if the device can do that from the host. False: none to be had.
  bool Take(Device& device, uint32_t count, QueryRange& range);
  // No submission may still write it.
  void Return(Device& device, QueryRange range);
  void Destroy(Device& device);

 private:
  bool AddPool(Device& device, std::deque<QueryRange>& spare, uint32_t count);

  std::mutex mutex_;
  // First in, first out: what is used one after the other lies side by side (query_batch.h).
  std::deque<QueryRange> spare_pairs_;
  std::deque<QueryRange> spare_chunks_;
  std::vector<VkQueryPool> pools_;
};

// Reads `count` timestamps, at most kChunk, without waiting. False unless all are available.
// On llvmpipe this may block until the device is idle: only where that cannot hurt.
bool ReadTimestamps(Device& device, const QueryRange& range, uint32_t first, uint32_t count, uint64_t* ticks);

// Fences that follow submissions where timeline semaphores are not to be had. One submitting thread takes and
// adds, one watching thread looks; when all are out, a submission goes without: a later one covers it.
class FenceRing {
 public:
  static constexpr uint32_t kCount = 32;

  // A fence that nothing waits for, or null.
  VkFence Take(Device& device);
  // It now stands for all submissions up to `number`.
  void Add(uint64_t number);
  // The number of the last complete submission, at least `known`.
  uint64_t Completed(Device& device, uint64_t known);
  void Destroy(Device& device);

 private:
  struct Slot {
    VkFence fence = VK_NULL_HANDLE;
    uint64_t number = 0;
  };
  std::array<Slot, kCount> slots_{};
  std::atomic<uint32_t> tail_{0};  // Submitting thread.
  std::atomic<uint32_t> head_{0};  // Watching thread.
};

}  // namespace smeltr::hook::vulkan
