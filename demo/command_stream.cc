#include "command_stream.h"

#include <limits>

namespace smeltr::demo {

CommandStream::CommandStream(const Device& device, VkQueue queue, const Kernels& kernels)
    : device_(device), queue_(queue), kernels_(kernels) {
  for (Slot& slot : slots_) slot = CreateSlot();
}

// The result is not looked at: on the way out of a failure the queue may be lost, and there is nothing left
// to do.
CommandStream::~CommandStream() { device_.Functions().QueueWaitIdle(queue_); }

CommandStream::Slot CommandStream::CreateSlot() const {
  const DeviceFunctions& vk = device_.Functions();
  Slot slot;
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  pool_info.flags = VK_COMMAND_POOL_CREATE_TRANSIENT_BIT;
  pool_info.queueFamilyIndex = device_.QueueFamily();
  VkCommandPool pool = VK_NULL_HANDLE;
  Check(vk.CreateCommandPool(device_.Handle(), &pool_info, nullptr, &pool), "vkCreateCommandPool");
  slot.pool = OwnedCommandPool(device_, pool);

  VkFenceCreateInfo fence_info{};
  fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  VkFence fence = VK_NULL_HANDLE;
  Check(vk.CreateFence(device_.Handle(), &fence_info, nullptr, &fence), "vkCreateFence");
  slot.fence = OwnedFence(device_, fence);

  VkCommandBufferAllocateInfo buffer_info{};
  buffer_info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  buffer_info.commandPool = pool;
  buffer_info.level = VK_COMMAND_BUFFER_LEVEL_PRIMARY;
  buffer_info.commandBufferCount = 1;
  Check(vk.AllocateCommandBuffers(device_.Handle(), &buffer_info, &slot.commands),
        "vkAllocateCommandBuffers");
  return slot;
}

void CommandStream::WaitFor(Slot& slot) {
  if (!slot.in_flight) return;
  const DeviceFunctions& vk = device_.Functions();
  const VkFence fence = slot.fence.Get();
  Check(vk.WaitForFences(device_.Handle(), 1, &fence, VK_TRUE, std::numeric_limits<uint64_t>::max()),
        "vkWaitForFences");
  Check(vk.ResetFences(device_.Handle(), 1, &fence), "vkResetFences");
  slot.in_flight = false;
}

void CommandStream::Begin() {
  const DeviceFunctions& vk = device_.Functions();
  current_ = (current_ + 1) % slots_.size();
  Slot& slot = slots_[current_];
  WaitFor(slot);
  Check(vk.ResetCommandPool(device_.Handle(), slot.pool.Get(), 0), "vkResetCommandPool");
  VkCommandBufferBeginInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
  info.flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
  Check(vk.BeginCommandBuffer(slot.commands, &info), "vkBeginCommandBuffer");
  recorded_dispatches_ = 0;
  Barrier();
}

void CommandStream::Dispatch(Kernel kernel, VkDescriptorSet set, const PushConstants& push, uint32_t groups_x,
                             uint32_t groups_y) {
  const DeviceFunctions& vk = device_.Functions();
  const VkCommandBuffer commands = Current();
  vk.CmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernels_.Pipeline(kernel));
  vk.CmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, kernels_.Layout(), 0, 1, &set, 0,
                           nullptr);
  vk.CmdPushConstants(commands, kernels_.Layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(push), &push);
  vk.CmdDispatch(commands, groups_x, groups_y, 1);
  ++recorded_dispatches_;
}

void CommandStream::Barrier() {
  constexpr VkPipelineStageFlags kStages =
      VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT | VK_PIPELINE_STAGE_TRANSFER_BIT;
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT |
                          VK_ACCESS_TRANSFER_READ_BIT | VK_ACCESS_TRANSFER_WRITE_BIT;
  device_.Functions().CmdPipelineBarrier(Current(), kStages, kStages, 0, 1, &barrier, 0, nullptr, 0, nullptr);
}

void CommandStream::Copy(const Range& from, VkBuffer to, VkDeviceSize to_offset_bytes) {
  const VkBufferCopy region{from.offset_bytes, to_offset_bytes, from.size_bytes};
  device_.Functions().CmdCopyBuffer(Current(), from.buffer, to, 1, &region);
}

void CommandStream::Submit() {
  const DeviceFunctions& vk = device_.Functions();
  Slot& slot = slots_[current_];
  VkMemoryBarrier barrier{};
  barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
  barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
  barrier.dstAccessMask = VK_ACCESS_HOST_READ_BIT;
  vk.CmdPipelineBarrier(slot.commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_HOST_BIT, 0, 1,
                        &barrier, 0, nullptr, 0, nullptr);
  Check(vk.EndCommandBuffer(slot.commands), "vkEndCommandBuffer");

  VkSubmitInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
  info.commandBufferCount = 1;
  info.pCommandBuffers = &slot.commands;
  Check(vk.QueueSubmit(queue_, 1, &info, slot.fence.Get()), "vkQueueSubmit");
  slot.in_flight = true;
  submitted_ += {recorded_dispatches_, 1};
}

void CommandStream::Wait() {
  for (Slot& slot : slots_) WaitFor(slot);
}

}  // namespace smeltr::demo
