// Instance, device and buffers, each owned by an object; and the demo's one kind of error.
//
// Vulkan needs dozens of calls of which none is expected to fail, so a failure is thrown as an Error and
// caught once, in main(). Owners destroy in reverse order of creation on that way out too.
#pragma once

#include <cstdint>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "vulkan_functions.h"

namespace smeltr::demo {

// what(): one line that says what to do next where something can be done.
class Error : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// Throws unless VK_SUCCESS. `call`: the function's name.
void Check(VkResult result, const char* call);

struct PhysicalDevice {
  VkPhysicalDevice handle = VK_NULL_HANDLE;
  VkPhysicalDeviceProperties properties{};

  const char* Name() const { return properties.deviceName; }
  const char* TypeName() const;
};

class Instance {
 public:
  Instance();
  ~Instance();
  Instance(const Instance&) = delete;
  Instance& operator=(const Instance&) = delete;

  const InstanceFunctions& Functions() const { return functions_; }
  bool HasDebugUtils() const { return has_debug_utils_; }
  PFN_vkGetInstanceProcAddr GetProcAddr() const { return get_proc_addr_; }
  VkInstance Handle() const { return handle_; }

  std::vector<PhysicalDevice> PhysicalDevices() const;
  // The one of `index` in PhysicalDevices(), or the most capable kind when it is negative.
  PhysicalDevice Choose(int index) const;

 private:
  PFN_vkGetInstanceProcAddr get_proc_addr_ = nullptr;
  VkInstance handle_ = VK_NULL_HANDLE;
  InstanceFunctions functions_;
  bool has_debug_utils_ = false;
};

// The queues a device can give for compute, up to `wanted`, at least 1.
uint32_t ComputeQueueCount(const Instance& instance, const PhysicalDevice& physical, uint32_t wanted);

// Calls that take the VkDevice may come from several threads; a queue belongs to one thread at a time.
class Device {
 public:
  Device(const Instance& instance, const PhysicalDevice& physical, uint32_t queue_count);
  ~Device();
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;

  VkDevice Handle() const { return handle_; }
  const DeviceFunctions& Functions() const { return functions_; }
  VkQueue Queue(uint32_t index) const { return queues_[index]; }
  uint32_t QueueFamily() const { return queue_family_; }

  // The first memory type among `allowed_bits` that has all `wanted` properties.
  uint32_t MemoryType(uint32_t allowed_bits, VkMemoryPropertyFlags wanted) const;

  // For tools; nothing without VK_EXT_debug_utils.
  template <typename Handle>
  void SetName(VkObjectType type, Handle handle, const char* name) const {
    if constexpr (std::is_pointer_v<Handle>) {
      SetRawName(type, reinterpret_cast<uint64_t>(handle), name);
    } else {
      SetRawName(type, handle, name);
    }
  }

 private:
  void SetRawName(VkObjectType type, uint64_t handle, const char* name) const;

  VkDevice handle_ = VK_NULL_HANDLE;
  DeviceFunctions functions_;
  VkPhysicalDeviceMemoryProperties memory_{};
  uint32_t queue_family_ = 0;
  std::vector<VkQueue> queues_;
};

// Sole owner of a child object of a device, which must outlive it.
template <typename Handle, auto kDestroy>
class Owned {
 public:
  Owned() = default;
  Owned(const Device& device, Handle handle) : device_(&device), handle_(handle) {}
  Owned(Owned&& other) noexcept
      : device_(std::exchange(other.device_, nullptr)), handle_(std::exchange(other.handle_, {})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (device_ != nullptr) (device_->Functions().*kDestroy)(device_->Handle(), handle_, nullptr);
  }

  Handle Get() const { return handle_; }

 private:
  const Device* device_ = nullptr;
  Handle handle_{};
};

using OwnedMemory = Owned<VkDeviceMemory, &DeviceFunctions::FreeMemory>;
using OwnedBuffer = Owned<VkBuffer, &DeviceFunctions::DestroyBuffer>;
using OwnedShaderModule = Owned<VkShaderModule, &DeviceFunctions::DestroyShaderModule>;
using OwnedPipeline = Owned<VkPipeline, &DeviceFunctions::DestroyPipeline>;
using OwnedPipelineLayout = Owned<VkPipelineLayout, &DeviceFunctions::DestroyPipelineLayout>;
using OwnedSetLayout = Owned<VkDescriptorSetLayout, &DeviceFunctions::DestroyDescriptorSetLayout>;
using OwnedDescriptorPool = Owned<VkDescriptorPool, &DeviceFunctions::DestroyDescriptorPool>;
using OwnedCommandPool = Owned<VkCommandPool, &DeviceFunctions::DestroyCommandPool>;
using OwnedFence = Owned<VkFence, &DeviceFunctions::DestroyFence>;

enum class BufferHome {
  kDevice,  // Not visible to the host.
  kHost,    // Mapped and coherent.
};

// A buffer with memory of its own.
class Buffer {
 public:
  Buffer() = default;
  Buffer(const Device& device, const char* name, VkDeviceSize size_bytes, VkBufferUsageFlags usage,
         BufferHome home);

  VkBuffer Handle() const { return buffer_.Get(); }
  VkDeviceSize SizeBytes() const { return size_bytes_; }
  // kHost only.
  template <typename T>
  std::span<T> Mapped() const {
    return {static_cast<T*>(mapped_), size_bytes_ / sizeof(T)};
  }

 private:
  VkDeviceSize size_bytes_ = 0;
  OwnedMemory memory_;  // Before the buffer: freed after it.
  OwnedBuffer buffer_;
  void* mapped_ = nullptr;
};

}  // namespace smeltr::demo
