// Device memory, and the buffers and images in it.

#include <new>

#include "base/clock.h"
#include "hook/core/scopes.h"
#include "hook/vulkan/hooks.h"
#include "hook/vulkan/memory_samples.h"

namespace smeltr::hook::vulkan {
namespace {

constexpr uint64_t kSampleGapNs = 10'000'000;

// Memory that someone else allocated: counting it would count it twice.
bool IsImport(const void* chain) {
  for (auto* next = static_cast<const VkBaseInStructure*>(chain); next != nullptr; next = next->pNext) {
    switch (static_cast<uint32_t>(next->sType)) {
      case VK_STRUCTURE_TYPE_IMPORT_MEMORY_FD_INFO_KHR:
      case VK_STRUCTURE_TYPE_IMPORT_MEMORY_HOST_POINTER_INFO_EXT:
      case 1000073000:  // VK_STRUCTURE_TYPE_IMPORT_MEMORY_WIN32_HANDLE_INFO_KHR
      case 1000129003:  // VK_STRUCTURE_TYPE_IMPORT_ANDROID_HARDWARE_BUFFER_INFO_ANDROID
      case 1000311002:  // VK_STRUCTURE_TYPE_IMPORT_METAL_BUFFER_INFO_EXT
        return true;
      default:
        break;
    }
  }
  return false;
}

void SampleAfterAllocation(Device& device) {
  const uint64_t now_ns = MonotonicNowNs();
  uint64_t last_ns = device.last_memory_sample_ns.load(std::memory_order_relaxed);
  if (now_ns - last_ns < kSampleGapNs) return;
  // Of several threads one samples.
  if (!device.last_memory_sample_ns.compare_exchange_strong(last_ns, now_ns, std::memory_order_relaxed))
    return;
  SampleMemory(device, event::MemSampleAt::kAllocation, now_ns);
}

event::HeapId HeapOf(const Device& device, VkDeviceMemory handle) {
  const Memory* memory = device.memories.Find(HandleKey(handle));
  return memory != nullptr ? memory->id : event::HeapId{};
}

void BufferBound(Device& device, VkBuffer handle, VkDeviceMemory memory) {
  Buffer* buffer = device.buffers.Find(HandleKey(handle));
  if (buffer == nullptr || buffer->announced) return;
  buffer->announced = true;
  Emit(kApi, event::BufferAlloc{.buffer_id = buffer->id,
                                .heap_id = HeapOf(device, memory),
                                .size_bytes = buffer->size_bytes,
                                .label = std::string_view(buffer->label),
                                .scope_id = CurrentScope()});
}

void ImageBound(Device& device, VkImage handle, VkDeviceMemory memory) {
  Image* image = device.images.Find(HandleKey(handle));
  if (image == nullptr || image->announced) return;
  image->announced = true;
  // Of one plane only when the planes are bound apart, and then asking for the whole is not allowed.
  VkMemoryRequirements requirements{};
  if (!image->disjoint) device.next.GetImageMemoryRequirements(device.handle, handle, &requirements);
  Emit(kApi, event::TextureAlloc{.texture_id = image->id,
                                 .heap_id = HeapOf(device, memory),
                                 .size_bytes = requirements.size,
                                 .label = std::string_view(image->label),
                                 .scope_id = CurrentScope()});
}

}  // namespace

void SampleMemory(Device& device, event::MemSampleAt at, uint64_t now_ns) {
  const VkPhysicalDeviceMemoryProperties& heaps = device.memory_properties;
  VkPhysicalDeviceMemoryBudgetPropertiesEXT budget{};
  budget.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_BUDGET_PROPERTIES_EXT;
  if (device.traits.memory_budget) {
    VkPhysicalDeviceMemoryProperties2 properties{};
    properties.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_MEMORY_PROPERTIES_2;
    properties.pNext = &budget;
    device.instance->next.GetPhysicalDeviceMemoryProperties2(device.physical, &properties);
  }
  event::DeviceMemSample sample{
      .at_event = at, .device_id = device.id, .own_accounting = !device.traits.memory_budget};
  for (uint32_t i = 0; i < heaps.memoryHeapCount; ++i) {
    if ((heaps.memoryHeaps[i].flags & VK_MEMORY_HEAP_DEVICE_LOCAL_BIT) == 0) continue;
    const bool own = sample.own_accounting;
    sample.allocated_bytes +=
        own ? device.heap_live_bytes[i].load(std::memory_order_relaxed) : budget.heapUsage[i];
    sample.recommended_max_bytes += own ? heaps.memoryHeaps[i].size : budget.heapBudget[i];
  }
  EmitAt(kApi, now_ns, sample);
}

VKAPI_ATTR VkResult VKAPI_CALL AllocateMemory(VkDevice handle, const VkMemoryAllocateInfo* info,
                                              const VkAllocationCallbacks* allocator,
                                              VkDeviceMemory* memory) {
  Device& device = *FindDevice(handle);
  const VkResult result = device.next.AllocateMemory(handle, info, allocator, memory);
  if (!device.recorded()) return result;
  if (result != VK_SUCCESS) {
    return Report(device, "vkAllocateMemory", result, {.requested_bytes = info->allocationSize});
  }
  auto* state = new (std::nothrow) Memory;
  if (state == nullptr || info->memoryTypeIndex >= device.memory_properties.memoryTypeCount) {
    delete state;
    return result;
  }
  const VkMemoryType& type = device.memory_properties.memoryTypes[info->memoryTypeIndex];
  state->id = event::HeapId{NextId()};
  state->size_bytes = info->allocationSize;
  state->heap_index = type.heapIndex;
  state->imported = IsImport(info->pNext);
  if (!state->imported) device.heap_live_bytes[state->heap_index].fetch_add(state->size_bytes);
  delete device.memories.Insert(HandleKey(*memory), state);
  Emit(kApi, event::HeapAlloc{.heap_id = state->id,
                              .size_bytes = state->size_bytes,
                              .scope_id = CurrentScope(),
                              .heap_index = state->heap_index,
                              .device_local = (type.propertyFlags & VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT) != 0,
                              .imported = state->imported});
  if (!state->imported) SampleAfterAllocation(device);
  return result;
}

VKAPI_ATTR void VKAPI_CALL FreeMemory(VkDevice handle, VkDeviceMemory memory,
                                      const VkAllocationCallbacks* allocator) {
  Device& device = *FindDevice(handle);
  if (Memory* state = device.recorded() ? device.memories.Remove(HandleKey(memory)) : nullptr) {
    if (!state->imported) device.heap_live_bytes[state->heap_index].fetch_sub(state->size_bytes);
    Emit(kApi, event::HeapFree{.heap_id = state->id});
    delete state;
  }
  device.next.FreeMemory(handle, memory, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateBuffer(VkDevice handle, const VkBufferCreateInfo* info,
                                            const VkAllocationCallbacks* allocator, VkBuffer* buffer) {
  Device& device = *FindDevice(handle);
  const VkResult result = device.next.CreateBuffer(handle, info, allocator, buffer);
  if (result != VK_SUCCESS || !device.recorded()) {
    return Report(device, "vkCreateBuffer", result, {.requested_bytes = info->size});
  }
  auto* state = new (std::nothrow) Buffer;
  if (state == nullptr) return result;
  state->id = event::BufferId{NextId()};
  state->size_bytes = info->size;
  delete device.buffers.Insert(HandleKey(*buffer), state);
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyBuffer(VkDevice handle, VkBuffer buffer,
                                         const VkAllocationCallbacks* allocator) {
  Device& device = *FindDevice(handle);
  if (Buffer* state = device.recorded() ? device.buffers.Remove(HandleKey(buffer)) : nullptr) {
    if (state->announced) Emit(kApi, event::BufferFree{.buffer_id = state->id});
    delete state;
  }
  device.next.DestroyBuffer(handle, buffer, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL BindBufferMemory(VkDevice handle, VkBuffer buffer, VkDeviceMemory memory,
                                                VkDeviceSize offset) {
  Device& device = *FindDevice(handle);
  const VkResult result = device.next.BindBufferMemory(handle, buffer, memory, offset);
  if (result == VK_SUCCESS && device.recorded()) BufferBound(device, buffer, memory);
  return Report(device, "vkBindBufferMemory", result);
}

VKAPI_ATTR VkResult VKAPI_CALL BindBufferMemory2(VkDevice handle, uint32_t count,
                                                 const VkBindBufferMemoryInfo* infos) {
  Device& device = *FindDevice(handle);
  if (device.next.BindBufferMemory2 == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  const VkResult result = device.next.BindBufferMemory2(handle, count, infos);
  for (uint32_t i = 0; i < count && result == VK_SUCCESS && device.recorded(); ++i) {
    BufferBound(device, infos[i].buffer, infos[i].memory);
  }
  return Report(device, "vkBindBufferMemory2", result);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateImage(VkDevice handle, const VkImageCreateInfo* info,
                                           const VkAllocationCallbacks* allocator, VkImage* image) {
  Device& device = *FindDevice(handle);
  const VkResult result = device.next.CreateImage(handle, info, allocator, image);
  if (result != VK_SUCCESS || !device.recorded()) return Report(device, "vkCreateImage", result);
  auto* state = new (std::nothrow) Image;
  if (state == nullptr) return result;
  state->id = event::TextureId{NextId()};
  state->disjoint = (info->flags & VK_IMAGE_CREATE_DISJOINT_BIT) != 0;
  delete device.images.Insert(HandleKey(*image), state);
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyImage(VkDevice handle, VkImage image,
                                        const VkAllocationCallbacks* allocator) {
  Device& device = *FindDevice(handle);
  if (Image* state = device.recorded() ? device.images.Remove(HandleKey(image)) : nullptr) {
    if (state->announced) Emit(kApi, event::TextureFree{.texture_id = state->id});
    delete state;
  }
  device.next.DestroyImage(handle, image, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL BindImageMemory(VkDevice handle, VkImage image, VkDeviceMemory memory,
                                               VkDeviceSize offset) {
  Device& device = *FindDevice(handle);
  const VkResult result = device.next.BindImageMemory(handle, image, memory, offset);
  if (result == VK_SUCCESS && device.recorded()) ImageBound(device, image, memory);
  return Report(device, "vkBindImageMemory", result);
}

VKAPI_ATTR VkResult VKAPI_CALL BindImageMemory2(VkDevice handle, uint32_t count,
                                                const VkBindImageMemoryInfo* infos) {
  Device& device = *FindDevice(handle);
  if (device.next.BindImageMemory2 == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  const VkResult result = device.next.BindImageMemory2(handle, count, infos);
  for (uint32_t i = 0; i < count && result == VK_SUCCESS && device.recorded(); ++i) {
    ImageBound(device, infos[i].image, infos[i].memory);
  }
  return Report(device, "vkBindImageMemory2", result);
}

}  // namespace smeltr::hook::vulkan
