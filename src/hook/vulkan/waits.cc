// Calls in which the program waits for the GPU, and others that may be the first to report a lost device.

#include "base/clock.h"
#include "hook/vulkan/hooks.h"
#include "hook/vulkan/poller.h"

namespace smeltr::hook::vulkan {
namespace {

constexpr uint64_t kLongWaitNs = 1'000'000;

// Calls `wait` and reports it if it took long.
template <typename Wait>
VkResult TimedWait(Device& device, std::string_view call, Wait wait) {
  if (!device.recorded()) return wait();
  const uint64_t start_ns = MonotonicNowNs();
  const VkResult result = wait();
  const uint64_t end_ns = MonotonicNowNs();
  if (end_ns - start_ns > kLongWaitNs) {
    EmitAt(kApi, end_ns, event::HostWait{.call = call, .duration_ns = end_ns - start_ns});
  }
  if (result == VK_SUCCESS) device.poller->NoteCompletion();
  return Report(device, call, result);
}

Device& DeviceOf(VkQueue handle) {
  const Queue* queue = FindQueue(handle);
  return queue != nullptr ? *queue->device : *FindDevice(handle);
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL WaitForFences(VkDevice handle, uint32_t count, const VkFence* fences,
                                             VkBool32 all, uint64_t timeout) {
  Device& device = *FindDevice(handle);
  return TimedWait(device, "vkWaitForFences",
                   [&] { return device.next.WaitForFences(handle, count, fences, all, timeout); });
}

VKAPI_ATTR VkResult VKAPI_CALL WaitSemaphores(VkDevice handle, const VkSemaphoreWaitInfo* info,
                                              uint64_t timeout) {
  Device& device = *FindDevice(handle);
  if (device.next.WaitSemaphores == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  return TimedWait(device, "vkWaitSemaphores",
                   [&] { return device.next.WaitSemaphores(handle, info, timeout); });
}

VKAPI_ATTR VkResult VKAPI_CALL QueueWaitIdle(VkQueue handle) {
  Device& device = DeviceOf(handle);
  return TimedWait(device, "vkQueueWaitIdle", [&] { return device.next.QueueWaitIdle(handle); });
}

VKAPI_ATTR VkResult VKAPI_CALL DeviceWaitIdle(VkDevice handle) {
  Device& device = *FindDevice(handle);
  return TimedWait(device, "vkDeviceWaitIdle", [&] { return device.next.DeviceWaitIdle(handle); });
}

VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImageKHR(VkDevice handle, VkSwapchainKHR swapchain,
                                                   uint64_t timeout, VkSemaphore semaphore, VkFence fence,
                                                   uint32_t* index) {
  Device& device = *FindDevice(handle);
  if (device.next.AcquireNextImageKHR == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  return TimedWait(device, "vkAcquireNextImageKHR", [&] {
    return device.next.AcquireNextImageKHR(handle, swapchain, timeout, semaphore, fence, index);
  });
}

VKAPI_ATTR VkResult VKAPI_CALL AcquireNextImage2KHR(VkDevice handle, const VkAcquireNextImageInfoKHR* info,
                                                    uint32_t* index) {
  Device& device = *FindDevice(handle);
  if (device.next.AcquireNextImage2KHR == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  return TimedWait(device, "vkAcquireNextImage2KHR",
                   [&] { return device.next.AcquireNextImage2KHR(handle, info, index); });
}

// --- polled in tight loops by some programs: no clock, no event but an error and what a success proves ---

VKAPI_ATTR VkResult VKAPI_CALL GetFenceStatus(VkDevice handle, VkFence fence) {
  Device& device = *FindDevice(handle);
  const VkResult result = device.next.GetFenceStatus(handle, fence);
  if (result == VK_SUCCESS && device.recorded()) device.poller->NoteCompletion();
  return Report(device, "vkGetFenceStatus", result);
}

VKAPI_ATTR VkResult VKAPI_CALL GetSemaphoreCounterValue(VkDevice handle, VkSemaphore semaphore,
                                                        uint64_t* value) {
  Device& device = *FindDevice(handle);
  if (device.next.GetSemaphoreCounterValue == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  return Report(device, "vkGetSemaphoreCounterValue",
                device.next.GetSemaphoreCounterValue(handle, semaphore, value));
}

VKAPI_ATTR VkResult VKAPI_CALL GetQueryPoolResults(VkDevice handle, VkQueryPool pool, uint32_t first,
                                                   uint32_t count, size_t size, void* data,
                                                   VkDeviceSize stride, VkQueryResultFlags flags) {
  Device& device = *FindDevice(handle);
  return Report(device, "vkGetQueryPoolResults",
                device.next.GetQueryPoolResults(handle, pool, first, count, size, data, stride, flags));
}

VKAPI_ATTR VkResult VKAPI_CALL MapMemory(VkDevice handle, VkDeviceMemory memory, VkDeviceSize offset,
                                         VkDeviceSize size, VkMemoryMapFlags flags, void** data) {
  Device& device = *FindDevice(handle);
  return Report(device, "vkMapMemory", device.next.MapMemory(handle, memory, offset, size, flags, data));
}

VKAPI_ATTR VkResult VKAPI_CALL QueuePresentKHR(VkQueue handle, const VkPresentInfoKHR* info) {
  Device& device = DeviceOf(handle);
  if (device.next.QueuePresentKHR == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  const VkResult result = device.next.QueuePresentKHR(handle, info);
  const Queue* queue = FindQueue(handle);
  const event::QueueId id = queue != nullptr ? queue->id : event::QueueId{};
  if (result >= 0 && device.recorded()) Emit(kApi, event::FrameBoundary{.queue_id = id});
  return Report(device, "vkQueuePresentKHR", result, {.queue_id = id});
}

}  // namespace smeltr::hook::vulkan
