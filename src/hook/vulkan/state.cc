#include "hook/vulkan/state.h"

#include "hook/core/scopes.h"

namespace smeltr::hook::vulkan {
namespace {

constinit InstanceMap g_instances;
constinit DeviceMap g_devices;
constinit QueueMap g_queues;
constinit CommandBufferMap g_command_buffers;

}  // namespace

InstanceMap& Instances() { return g_instances; }
DeviceMap& Devices() { return g_devices; }
QueueMap& Queues() { return g_queues; }
CommandBufferMap& CommandBuffers() { return g_command_buffers; }

void ResetLocksAfterFork() {
  g_instances.ResetLockAfterFork();
  g_devices.ResetLockAfterFork();
  g_queues.ResetLockAfterFork();
  g_command_buffers.ResetLockAfterFork();
  ResetKernelLockAfterFork();
}

VkResult Report(Device& device, std::string_view call, VkResult result, const CallContext& context) {
  if (result >= 0 || !device.recorded()) return result;
  // A lost device fails every call from now on; the first says it.
  if (result == VK_ERROR_DEVICE_LOST && device.lost.exchange(true)) return result;
  Emit(kApi, event::ApiError{.call = call,
                             .error_code = result,
                             .error_name = ResultName(result),
                             .queue_id = context.queue_id,
                             .scope_id = CurrentScope(),
                             .requested_bytes = context.requested_bytes});
  return result;
}

std::string_view ResultName(VkResult result) {
  switch (result) {
#define RESULT(name) \
  case name:         \
    return #name;
    RESULT(VK_ERROR_OUT_OF_HOST_MEMORY)
    RESULT(VK_ERROR_OUT_OF_DEVICE_MEMORY)
    RESULT(VK_ERROR_INITIALIZATION_FAILED)
    RESULT(VK_ERROR_DEVICE_LOST)
    RESULT(VK_ERROR_MEMORY_MAP_FAILED)
    RESULT(VK_ERROR_LAYER_NOT_PRESENT)
    RESULT(VK_ERROR_EXTENSION_NOT_PRESENT)
    RESULT(VK_ERROR_FEATURE_NOT_PRESENT)
    RESULT(VK_ERROR_INCOMPATIBLE_DRIVER)
    RESULT(VK_ERROR_TOO_MANY_OBJECTS)
    RESULT(VK_ERROR_FORMAT_NOT_SUPPORTED)
    RESULT(VK_ERROR_FRAGMENTED_POOL)
    RESULT(VK_ERROR_UNKNOWN)
    RESULT(VK_ERROR_OUT_OF_POOL_MEMORY)
    RESULT(VK_ERROR_INVALID_EXTERNAL_HANDLE)
    RESULT(VK_ERROR_FRAGMENTATION)
    RESULT(VK_ERROR_INVALID_OPAQUE_CAPTURE_ADDRESS)
    RESULT(VK_ERROR_SURFACE_LOST_KHR)
    RESULT(VK_ERROR_NATIVE_WINDOW_IN_USE_KHR)
    RESULT(VK_ERROR_OUT_OF_DATE_KHR)
    RESULT(VK_ERROR_INCOMPATIBLE_DISPLAY_KHR)
    RESULT(VK_ERROR_VALIDATION_FAILED_EXT)
    RESULT(VK_ERROR_INVALID_SHADER_NV)
    RESULT(VK_ERROR_NOT_PERMITTED_KHR)
    RESULT(VK_ERROR_FULL_SCREEN_EXCLUSIVE_MODE_LOST_EXT)
#undef RESULT
    default:
      return "VkResult";
  }
}

}  // namespace smeltr::hook::vulkan
