// Records one-time command buffers and submits them to one queue, two in flight: while the GPU runs one,
// the next is recorded. One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "kernels.h"
#include "vulkan_context.h"

namespace smeltr::demo {

// Of command buffers that were submitted.
struct Counts {
  uint64_t dispatches = 0;
  uint64_t command_buffers = 0;

  Counts& operator+=(const Counts& other) {
    dispatches += other.dispatches;
    command_buffers += other.command_buffers;
    return *this;
  }
};

struct Range {
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceSize offset_bytes = 0;
  VkDeviceSize size_bytes = 0;
};

class CommandStream {
 public:
  CommandStream(const Device& device, VkQueue queue, const Kernels& kernels);
  ~CommandStream();  // Waits for the queue.
  CommandStream(const CommandStream&) = delete;
  CommandStream& operator=(const CommandStream&) = delete;

  // Starts a command buffer that sees all writes of the earlier ones. Waits while two are in flight.
  void Begin();
  void Dispatch(Kernel kernel, VkDescriptorSet set, const PushConstants& push, uint32_t groups_x,
                uint32_t groups_y = 1);
  // What follows sees what the dispatches and copies before it wrote.
  void Barrier();
  void Copy(const Range& from, VkBuffer to, VkDeviceSize to_offset_bytes);
  // Ends the command buffer, its copies made visible to the host once Wait() has returned.
  void Submit();

  // Until everything submitted has completed.
  void Wait();

  const Counts& Submitted() const { return submitted_; }

 private:
  struct Slot {
    OwnedCommandPool pool;
    OwnedFence fence;
    VkCommandBuffer commands = VK_NULL_HANDLE;  // Owned by the pool.
    bool in_flight = false;
  };

  Slot CreateSlot() const;
  void WaitFor(Slot& slot);
  VkCommandBuffer Current() const { return slots_[current_].commands; }

  const Device& device_;
  const VkQueue queue_;
  const Kernels& kernels_;
  std::array<Slot, 2> slots_;
  size_t current_ = 0;
  uint64_t recorded_dispatches_ = 0;  // In the command buffer that is being recorded.
  Counts submitted_;
};

}  // namespace smeltr::demo
