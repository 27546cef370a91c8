// Hooks of command pools and command buffers: which recordings exist, and when one ends.

#include <algorithm>
#include <new>

#include "hook/vulkan/hooks.h"
#include "hook/vulkan/recording.h"

namespace smeltr::hook::vulkan {
namespace {

void Forget(CommandBuffer* buffer) {
  CommandBuffers().Remove(HandleKey(buffer->handle));
  DropRecording(*buffer);
  delete buffer;
}

void Remember(Device& device, CommandPool& pool, VkCommandBuffer handle, bool secondary) {
  auto* buffer = new (std::nothrow) CommandBuffer;
  if (buffer == nullptr) return Skip(kApi, event::SkipReason::kTableFull, "command buffers");
  buffer->handle = handle;
  buffer->device = &device;
  buffer->pool = &pool;
  buffer->secondary = secondary;
  pool.buffers.push_back(buffer);
  CommandBuffers().Insert(HandleKey(handle), buffer);
}

CommandPool* FindPool(Device& device, VkCommandPool pool) {
  return device.recorded() ? device.command_pools.Find(HandleKey(pool)) : nullptr;
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL CreateCommandPool(VkDevice handle, const VkCommandPoolCreateInfo* info,
                                                 const VkAllocationCallbacks* allocator,
                                                 VkCommandPool* pool) {
  Device* device = FindDevice(handle);
  const VkResult result = device->next.CreateCommandPool(handle, info, allocator, pool);
  if (!device->recorded()) return result;
  if (result != VK_SUCCESS || info->queueFamilyIndex >= device->families.size()) {
    return Report(*device, "vkCreateCommandPool", result);
  }
  auto* state = new (std::nothrow) CommandPool;
  if (state == nullptr) return result;
  state->family = info->queueFamilyIndex;
  state->is_protected = (info->flags & VK_COMMAND_POOL_CREATE_PROTECTED_BIT) != 0;
  device->command_pools.Insert(HandleKey(*pool), state);
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL ResetCommandPool(VkDevice handle, VkCommandPool pool,
                                                VkCommandPoolResetFlags flags) {
  Device* device = FindDevice(handle);
  if (CommandPool* state = FindPool(*device, pool)) {
    for (CommandBuffer* buffer : state->buffers) DropRecording(*buffer);
  }
  return Report(*device, "vkResetCommandPool", device->next.ResetCommandPool(handle, pool, flags));
}

VKAPI_ATTR void VKAPI_CALL DestroyCommandPool(VkDevice handle, VkCommandPool pool,
                                              const VkAllocationCallbacks* allocator) {
  Device* device = FindDevice(handle);
  if (CommandPool* state = FindPool(*device, pool)) {
    device->command_pools.Remove(HandleKey(pool));
    for (CommandBuffer* buffer : state->buffers) Forget(buffer);
    ForgetCachedCommandBuffers();
    delete state;
  }
  device->next.DestroyCommandPool(handle, pool, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL AllocateCommandBuffers(VkDevice handle,
                                                      const VkCommandBufferAllocateInfo* info,
                                                      VkCommandBuffer* buffers) {
  Device* device = FindDevice(handle);
  const VkResult result = device->next.AllocateCommandBuffers(handle, info, buffers);
  CommandPool* pool = FindPool(*device, info->commandPool);
  if (result != VK_SUCCESS || pool == nullptr) return Report(*device, "vkAllocateCommandBuffers", result);
  const bool secondary = info->level == VK_COMMAND_BUFFER_LEVEL_SECONDARY;
  for (uint32_t i = 0; i < info->commandBufferCount; ++i) Remember(*device, *pool, buffers[i], secondary);
  return result;
}

VKAPI_ATTR void VKAPI_CALL FreeCommandBuffers(VkDevice handle, VkCommandPool pool, uint32_t count,
                                              const VkCommandBuffer* buffers) {
  Device* device = FindDevice(handle);
  if (CommandPool* state = FindPool(*device, pool)) {
    for (uint32_t i = 0; i < count; ++i) {
      CommandBuffer* buffer = buffers[i] != nullptr ? CommandBuffers().Find(HandleKey(buffers[i])) : nullptr;
      if (buffer == nullptr) continue;
      std::erase(state->buffers, buffer);
      Forget(buffer);
    }
    ForgetCachedCommandBuffers();
  }
  device->next.FreeCommandBuffers(handle, pool, count, buffers);
}

VKAPI_ATTR VkResult VKAPI_CALL BeginCommandBuffer(VkCommandBuffer handle,
                                                  const VkCommandBufferBeginInfo* info) {
  const Recorder recorder(handle);
  if (recorder.next() == nullptr) return VK_ERROR_UNKNOWN;
  const VkResult result = recorder.next()->BeginCommandBuffer(handle, info);
  CommandBuffer* buffer = FindCommandBuffer(handle);
  if (buffer == nullptr || !buffer->device->recorded()) return result;
  if (result == VK_SUCCESS) StartRecording(*buffer, *info);
  return Report(*buffer->device, "vkBeginCommandBuffer", result);
}

VKAPI_ATTR VkResult VKAPI_CALL EndCommandBuffer(VkCommandBuffer handle) {
  Recorder recorder(handle);
  if (recorder.next() == nullptr) return VK_ERROR_UNKNOWN;
  recorder.Finish();
  const VkResult result = recorder.next()->EndCommandBuffer(handle);
  Recording* recording = recorder.recording();
  return recording != nullptr ? Report(*recording->device, "vkEndCommandBuffer", result) : result;
}

VKAPI_ATTR VkResult VKAPI_CALL ResetCommandBuffer(VkCommandBuffer handle, VkCommandBufferResetFlags flags) {
  const Recorder recorder(handle);
  if (recorder.next() == nullptr) return VK_ERROR_UNKNOWN;
  const VkResult result = recorder.next()->ResetCommandBuffer(handle, flags);
  CommandBuffer* buffer = FindCommandBuffer(handle);
  if (buffer == nullptr || !buffer->device->recorded()) return result;
  DropRecording(*buffer);
  return Report(*buffer->device, "vkResetCommandBuffer", result);
}

}  // namespace smeltr::hook::vulkan
