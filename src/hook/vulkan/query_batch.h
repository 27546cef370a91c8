// Many ranges of timestamps read in few calls. On llvmpipe a call lasts until the device is idle: one for
// each command buffer, and a program that keeps two in flight completes them faster than they are read.
#pragma once

#include <vulkan/vulkan.h>

#include <cstddef>
#include <cstdint>

#include "hook/vulkan/pod_array.h"
#include "hook/vulkan/timestamps.h"

namespace smeltr::hook::vulkan {

// Used by one thread.
class QueryBatch {
 public:
  void Clear();
  // Asks for all of `range`, which nobody resets before Read() is back. Its ticks will begin at `at`. False
  // without memory.
  bool Add(const QueryRange& range, size_t& at);
  // One call for each run of neighbouring ranges.
  void Read(Device& device);
  // 0: not available.
  uint64_t ticks(size_t at) const { return ticks_[at]; }

 private:
  struct Wanted {
    VkQueryPool pool;
    uint32_t first;
    uint32_t count;
    size_t at;
  };
  struct Result {
    uint64_t ticks;
    uint64_t available;
  };
  void ReadNeighbours(Device& device, const Wanted* begin, const Wanted* end);

  PodArray<Wanted> wanted_;
  PodArray<uint64_t> ticks_;
  PodArray<Result> results_;
};

}  // namespace smeltr::hook::vulkan
