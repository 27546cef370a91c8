// vkCreateDevice, vkDestroyDevice and the device's queues.

#include <cstdio>
#include <new>

#include "hook/vulkan/device_features.h"
#include "hook/vulkan/hooks.h"
#include "hook/vulkan/poller.h"
#include "hook/vulkan/recording.h"

namespace smeltr::hook::vulkan {
namespace {

VkLayerDeviceCreateInfo* FindLink(const VkDeviceCreateInfo& info) {
  // The loader's own struct, made to be changed by the layers.
  for (auto* next = static_cast<const VkLayerDeviceCreateInfo*>(info.pNext); next != nullptr;
       next = static_cast<const VkLayerDeviceCreateInfo*>(next->pNext)) {
    if (next->sType == VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO && next->function == VK_LAYER_LINK_INFO) {
      return const_cast<VkLayerDeviceCreateInfo*>(next);
    }
  }
  return nullptr;
}

void DescribeDriver(const Device& device, const VkPhysicalDeviceProperties& properties, char (&text)[256]) {
  const InstanceTable& next = device.instance->next;
  const bool has_driver_info =
      next.GetPhysicalDeviceProperties2 != nullptr && properties.apiVersion >= VK_API_VERSION_1_2;
  VkPhysicalDeviceDriverProperties driver{};
  driver.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_DRIVER_PROPERTIES;
  if (has_driver_info) {
    VkPhysicalDeviceProperties2 all{};
    all.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PROPERTIES_2;
    all.pNext = &driver;
    next.GetPhysicalDeviceProperties2(device.physical, &all);
  }
  if (driver.driverName[0] != 0) {
    std::snprintf(text, sizeof(text), "%.127s %.120s", driver.driverName, driver.driverInfo);
  } else {
    std::snprintf(text, sizeof(text), "version 0x%x", properties.driverVersion);
  }
}

void EmitDeviceInfo(const Device& device) {
  VkPhysicalDeviceProperties properties{};
  device.instance->next.GetPhysicalDeviceProperties(device.physical, &properties);
  char driver[256];
  DescribeDriver(device, properties, driver);
  char version[32];
  std::snprintf(version, sizeof(version), "%u.%u.%u", VK_API_VERSION_MAJOR(properties.apiVersion),
                VK_API_VERSION_MINOR(properties.apiVersion), VK_API_VERSION_PATCH(properties.apiVersion));
  event::MemoryHeap heaps[VK_MAX_MEMORY_HEAPS];
  const VkPhysicalDeviceMemoryProperties& memory = device.memory_properties;
  for (uint32_t i = 0; i < memory.memoryHeapCount; ++i) {
    heaps[i] = {.size_bytes = memory.memoryHeaps[i].size,
                .device_local = (memory.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) != 0};
  }
  Emit(kApi, event::DeviceInfo{.device_id = device.id,
                               .device_name = properties.deviceName,
                               .driver = driver,
                               .vendor_id = properties.vendorID,
                               .api_version = version,
                               .application = device.instance->application,
                               .heaps = {heaps, memory.memoryHeapCount}});
}

void FindOutAbout(Device& device) {
  const InstanceTable& next = device.instance->next;
  uint32_t count = 0;
  next.GetPhysicalDeviceQueueFamilyProperties(device.physical, &count, nullptr);
  device.families.resize(count);
  next.GetPhysicalDeviceQueueFamilyProperties(device.physical, &count, device.families.data());
  next.GetPhysicalDeviceMemoryProperties(device.physical, &device.memory_properties);
}

VkSemaphore CreateTimeline(Device& device) {
  VkSemaphoreTypeCreateInfo type{};
  type.sType = VK_STRUCTURE_TYPE_SEMAPHORE_TYPE_CREATE_INFO;
  type.semaphoreType = VK_SEMAPHORE_TYPE_TIMELINE;
  VkSemaphoreCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SEMAPHORE_CREATE_INFO;
  info.pNext = &type;
  VkSemaphore semaphore = VK_NULL_HANDLE;
  if (device.next.CreateSemaphore(device.handle, &info, nullptr, &semaphore) != VK_SUCCESS)
    return VK_NULL_HANDLE;
  return semaphore;
}

// "0.2 graphics compute": family, index, what it can do.
void DescribeQueue(const Device& device, uint32_t family, uint32_t index, char (&text)[64]) {
  const VkQueueFlags flags = device.families[family].queueFlags;
  std::snprintf(text, sizeof(text), "%u.%u%s%s%s", family, index,
                flags & VK_QUEUE_GRAPHICS_BIT ? " graphics" : "",
                flags & VK_QUEUE_COMPUTE_BIT ? " compute" : "",
                flags & (VK_QUEUE_GRAPHICS_BIT | VK_QUEUE_COMPUTE_BIT) ? "" : " transfer");
}

// The program asks for the same queue as often as it likes.
void RememberQueue(VkDevice handle, uint32_t family, uint32_t index, VkQueue queue_handle) {
  Device* device = FindDevice(handle);
  if (queue_handle == VK_NULL_HANDLE || device == nullptr || !device->recorded() ||
      family >= device->families.size()) {
    return;
  }
  const std::lock_guard lock(device->queue_mutex);
  if (FindQueue(queue_handle) != nullptr) return;
  auto* queue = new (std::nothrow) Queue;
  if (queue == nullptr || !queue->tracker.Init()) {
    delete queue;
    return Skip(kApi, event::SkipReason::kTableFull, "queues");
  }
  queue->handle = queue_handle;
  queue->device = device;
  queue->id = event::QueueId{NextId()};
  queue->family = family;
  queue->valid_bits = device->families[family].timestampValidBits;
  if (device->traits.timeline) queue->timeline = CreateTimeline(*device);
  if (device->queues.load(std::memory_order_relaxed) == nullptr) device->poller->Start();
  queue->next_of_device = device->queues.load(std::memory_order_relaxed);
  device->queues.store(queue, std::memory_order_release);
  Queues().Insert(HandleKey(queue_handle), queue);
  char label[64];
  DescribeQueue(*device, family, index, label);
  Emit(kApi, event::QueueInfo{.queue_id = queue->id,
                              .device_id = device->id,
                              .label = label,
                              .timestamp_valid_bits = queue->valid_bits});
}

// Everything of ours that needs the device; nothing is in flight any more.
void ReleaseAll(Device& device) {
  device.command_pools.ForEach([](CommandPool* pool) {
    for (CommandBuffer* buffer : pool->buffers) {
      CommandBuffers().Remove(HandleKey(buffer->handle));
      DropRecording(*buffer);
      delete buffer;
    }
    delete pool;
  });
  ForgetCachedCommandBuffers();
  for (Queue* queue = device.queues.load(std::memory_order_relaxed); queue != nullptr;) {
    Queue* next = queue->next_of_device;
    if (queue->timeline != VK_NULL_HANDLE)
      device.next.DestroySemaphore(device.handle, queue->timeline, nullptr);
    queue->fences.Destroy(device);
    delete queue;
    queue = next;
  }
  device.queries.Destroy(device);
  for (Recording* recording : device.spare_recordings) {
    delete[] recording->saved.load(std::memory_order_relaxed);
    delete recording;
  }
  device.pipelines.ForEach([](Pipeline* pipeline) { delete pipeline; });
  device.modules.ForEach([](Module* module) { delete module; });
  device.memories.ForEach([](Memory* memory) { delete memory; });
  device.buffers.ForEach([](Buffer* buffer) { delete buffer; });
  device.images.ForEach([](Image* image) { delete image; });
  device.command_pools.Clear();
  device.pipelines.Clear();
  device.modules.Clear();
  device.memories.Clear();
  device.buffers.Clear();
  device.images.Clear();
}

Device* Register(Instance& instance, VkPhysicalDevice physical, VkDevice handle, const DeviceTraits& traits,
                 PFN_vkGetDeviceProcAddr next) {
  auto* device = new (std::nothrow) Device(traits);
  if (device == nullptr) return nullptr;
  device->handle = handle;
  device->physical = physical;
  device->instance = &instance;
  device->next.Load(handle, next);
  device->passthrough = instance.passthrough || !Active();
  Devices().Insert(DispatchKey(handle), device);
  if (device->passthrough) return device;
  device->generation = Generation();
  device->id = event::DeviceId{NextId()};
  device->poller = new (std::nothrow) Poller(*device);
  if (device->poller == nullptr) device->passthrough = true;
  FindOutAbout(*device);
  return device;
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkDevice* handle) {
  Instance* instance = Instances().Find(DispatchKey(physical));
  VkLayerDeviceCreateInfo* link = FindLink(*info);
  if (instance == nullptr || link == nullptr || link->u.pLayerInfo == nullptr)
    return VK_ERROR_INITIALIZATION_FAILED;
  const PFN_vkGetDeviceProcAddr next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  const auto create = reinterpret_cast<PFN_vkCreateDevice>(
      link->u.pLayerInfo->pfnNextGetInstanceProcAddr(instance->handle, "vkCreateDevice"));
  if (create == nullptr) return VK_ERROR_INITIALIZATION_FAILED;
  VkLayerDeviceLink* next_link = link->u.pLayerInfo->pNext;
  link->u.pLayerInfo = next_link;

  Device* device = nullptr;
  VkResult result = VK_SUCCESS;
  if (instance->passthrough || !Active()) {
    result = create(physical, info, allocator, handle);
    if (result == VK_SUCCESS) device = Register(*instance, physical, *handle, {}, next_device);
  } else {
    const DeviceRequest request(*instance, physical, *info);
    bool granted = true;
    result = create(physical, &request.info(), allocator, handle);
    if (result != VK_SUCCESS && request.changed()) {
      granted = false;
      link->u.pLayerInfo = next_link;  // The layers below have moved it.
      result = create(physical, info, allocator, handle);
    }
    if (result == VK_SUCCESS) {
      device = Register(*instance, physical, *handle, granted ? request.traits() : request.plain_traits(),
                        next_device);
    }
  }
  if (result != VK_SUCCESS) {
    Emit(kApi,
         event::ApiError{.call = "vkCreateDevice", .error_code = result, .error_name = ResultName(result)});
    return result;
  }
  if (device == nullptr) return VK_ERROR_OUT_OF_HOST_MEMORY;
  if (device->passthrough) return result;
  EmitDeviceInfo(*device);
  if (!device->traits.timeline) {
    Skip(kApi, event::SkipReason::kFeatureUnavailable, "timeline semaphores: completions by fence");
  }
  if (!device->traits.host_query_reset) {
    Skip(kApi, event::SkipReason::kFeatureUnavailable, "host query reset: no per-op times");
  }
  if (!device->traits.llvmpipe && !device->traits.calibrated_timestamps) {
    Skip(kApi, event::SkipReason::kCalibration,
         "no calibrated timestamps: clock offset learned from the work");
  }
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyDevice(VkDevice handle, const VkAllocationCallbacks* allocator) {
  if (handle == VK_NULL_HANDLE) return;
  const uint64_t key = DispatchKey(handle);
  Device* device = Devices().Find(key);
  if (device == nullptr) return;
  const PFN_vkDestroyDevice destroy = device->next.DestroyDevice;
  const bool ours = device->recorded();
  // In a forked child, or with its thread stuck in the driver, the state stays behind.
  bool released = device->passthrough;
  if (ours) {
    released = device->poller->Stop();
    for (Queue* queue = device->queues.load(); queue != nullptr; queue = queue->next_of_device) {
      Queues().Remove(HandleKey(queue->handle));
    }
    if (released) ReleaseAll(*device);
  }
  Devices().Remove(key);
  destroy(handle, allocator);
  if (!released) return;
  delete device->poller;
  delete device;
}

VKAPI_ATTR void VKAPI_CALL GetDeviceQueue(VkDevice handle, uint32_t family, uint32_t index, VkQueue* queue) {
  FindDevice(handle)->next.GetDeviceQueue(handle, family, index, queue);
  RememberQueue(handle, family, index, *queue);
}

VKAPI_ATTR void VKAPI_CALL GetDeviceQueue2(VkDevice handle, const VkDeviceQueueInfo2* info, VkQueue* queue) {
  FindDevice(handle)->next.GetDeviceQueue2(handle, info, queue);
  RememberQueue(handle, info->queueFamilyIndex, info->queueIndex, *queue);
}

}  // namespace smeltr::hook::vulkan
