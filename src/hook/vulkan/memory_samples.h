// How much of each device memory heap is in use, as the driver says, or else by our own sums.
#pragma once

#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

// Emits DeviceMemSample. Any thread.
void SampleMemory(Device& device, event::MemSampleAt at, uint64_t now_ns);

}  // namespace smeltr::hook::vulkan
