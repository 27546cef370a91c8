// Debug names the program gives its objects.

#include "hook/vulkan/hooks.h"

namespace smeltr::hook::vulkan {
namespace {

void NamePipeline(const Device& device, uint64_t key, std::string_view name) {
  Pipeline* pipeline = device.pipelines.Find(key);
  if (pipeline == nullptr) return;
  const Kernel& unnamed = *pipeline->unnamed;
  const bool plain = name.empty() || unnamed.hash == 0;
  pipeline->kernel.store(plain ? &unnamed : InternKernel(unnamed.hash, name, unnamed.local),
                         std::memory_order_release);
}

void NameQueue(const Device& device, uint64_t key, std::string_view name) {
  const Queue* queue = Queues().Find(key);
  if (queue == nullptr || name.empty()) return;
  Emit(kApi, event::QueueInfo{.queue_id = queue->id,
                              .device_id = device.id,
                              .label = name,
                              .timestamp_valid_bits = queue->valid_bits});
}

// The names are the program's memory; an empty one takes the name away.
void NameObject(Device& device, VkObjectType type, uint64_t key, std::string_view name) {
  switch (type) {
    case VK_OBJECT_TYPE_PIPELINE:
      return NamePipeline(device, key, name);
    case VK_OBJECT_TYPE_SHADER_MODULE: {
      const std::lock_guard lock(device.names_mutex);
      if (Module* module = device.modules.Find(key)) module->debug_name = name;
      return;
    }
    case VK_OBJECT_TYPE_QUEUE:
      return NameQueue(device, key, name);
    case VK_OBJECT_TYPE_COMMAND_BUFFER:
      if (CommandBuffer* buffer = CommandBuffers().Find(key)) buffer->label = name;
      return;
    case VK_OBJECT_TYPE_BUFFER:
      if (Buffer* buffer = device.buffers.Find(key)) buffer->label = name;
      return;
    case VK_OBJECT_TYPE_IMAGE:
      if (Image* image = device.images.Find(key)) image->label = name;
      return;
    default:
      return;
  }
}

VkObjectType FromMarkerType(VkDebugReportObjectTypeEXT type) {
  switch (type) {
    case VK_DEBUG_REPORT_OBJECT_TYPE_PIPELINE_EXT:
      return VK_OBJECT_TYPE_PIPELINE;
    case VK_DEBUG_REPORT_OBJECT_TYPE_SHADER_MODULE_EXT:
      return VK_OBJECT_TYPE_SHADER_MODULE;
    case VK_DEBUG_REPORT_OBJECT_TYPE_QUEUE_EXT:
      return VK_OBJECT_TYPE_QUEUE;
    case VK_DEBUG_REPORT_OBJECT_TYPE_COMMAND_BUFFER_EXT:
      return VK_OBJECT_TYPE_COMMAND_BUFFER;
    case VK_DEBUG_REPORT_OBJECT_TYPE_BUFFER_EXT:
      return VK_OBJECT_TYPE_BUFFER;
    case VK_DEBUG_REPORT_OBJECT_TYPE_IMAGE_EXT:
      return VK_OBJECT_TYPE_IMAGE;
    default:
      return VK_OBJECT_TYPE_UNKNOWN;
  }
}

std::string_view TextOf(const char* name) { return name != nullptr ? name : ""; }

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL SetDebugUtilsObjectNameEXT(VkDevice handle,
                                                          const VkDebugUtilsObjectNameInfoEXT* info) {
  Device& device = *FindDevice(handle);
  if (device.recorded()) NameObject(device, info->objectType, info->objectHandle, TextOf(info->pObjectName));
  if (device.next.SetDebugUtilsObjectNameEXT == nullptr) return VK_SUCCESS;
  return device.next.SetDebugUtilsObjectNameEXT(handle, info);
}

VKAPI_ATTR VkResult VKAPI_CALL DebugMarkerSetObjectNameEXT(VkDevice handle,
                                                           const VkDebugMarkerObjectNameInfoEXT* info) {
  Device& device = *FindDevice(handle);
  if (device.recorded()) {
    NameObject(device, FromMarkerType(info->objectType), info->object, TextOf(info->pObjectName));
  }
  if (device.next.DebugMarkerSetObjectNameEXT == nullptr) return VK_SUCCESS;
  return device.next.DebugMarkerSetObjectNameEXT(handle, info);
}

}  // namespace smeltr::hook::vulkan
