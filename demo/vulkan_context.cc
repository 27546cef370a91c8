#include "vulkan_context.h"

#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cstring>

namespace smeltr::demo {
namespace {

constexpr const char* kInstallHint =
    "install a Vulkan driver, e.g. `apt-get install libvulkan1 mesa-vulkan-drivers`";

const char* ResultName(VkResult result) {
  switch (result) {
    case VK_NOT_READY:
      return "VK_NOT_READY";
    case VK_TIMEOUT:
      return "VK_TIMEOUT";
    case VK_INCOMPLETE:
      return "VK_INCOMPLETE";
    case VK_ERROR_OUT_OF_HOST_MEMORY:
      return "VK_ERROR_OUT_OF_HOST_MEMORY";
    case VK_ERROR_OUT_OF_DEVICE_MEMORY:
      return "VK_ERROR_OUT_OF_DEVICE_MEMORY";
    case VK_ERROR_INITIALIZATION_FAILED:
      return "VK_ERROR_INITIALIZATION_FAILED";
    case VK_ERROR_DEVICE_LOST:
      return "VK_ERROR_DEVICE_LOST";
    case VK_ERROR_MEMORY_MAP_FAILED:
      return "VK_ERROR_MEMORY_MAP_FAILED";
    case VK_ERROR_LAYER_NOT_PRESENT:
      return "VK_ERROR_LAYER_NOT_PRESENT";
    case VK_ERROR_EXTENSION_NOT_PRESENT:
      return "VK_ERROR_EXTENSION_NOT_PRESENT";
    case VK_ERROR_FEATURE_NOT_PRESENT:
      return "VK_ERROR_FEATURE_NOT_PRESENT";
    case VK_ERROR_INCOMPATIBLE_DRIVER:
      return "VK_ERROR_INCOMPATIBLE_DRIVER";
    case VK_ERROR_OUT_OF_POOL_MEMORY:
      return "VK_ERROR_OUT_OF_POOL_MEMORY";
    default:
      return nullptr;
  }
}

// The library stays loaded until the process ends: drivers keep threads of their own in it.
PFN_vkGetInstanceProcAddr LoadLoader() {
  constexpr std::array kNames = {"libvulkan.so.1", "libvulkan.1.dylib"};
  for (const char* name : kNames) {
    void* library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) continue;
    if (void* symbol = dlsym(library, "vkGetInstanceProcAddr"); symbol != nullptr) {
      return reinterpret_cast<PFN_vkGetInstanceProcAddr>(symbol);
    }
  }
  throw Error(std::string("no Vulkan loader found; ") + kInstallHint);
}

template <typename Function, typename Lookup, typename Handle>
void Load(Function& function, Lookup lookup, Handle handle, const char* name) {
  function = reinterpret_cast<Function>(lookup(handle, name));
  if (function == nullptr) throw Error(std::string("the Vulkan driver lacks ") + name);
}

bool Contains(std::span<const VkExtensionProperties> extensions, const char* name) {
  return std::any_of(extensions.begin(), extensions.end(), [name](const VkExtensionProperties& extension) {
    return std::strcmp(extension.extensionName, name) == 0;
  });
}

// Calls an enumerating function until it got everything: the count can change between two calls.
template <typename T, typename Function>
std::vector<T> Enumerate(Function function, const char* name) {
  std::vector<T> items;
  uint32_t count = 0;
  VkResult result = VK_INCOMPLETE;
  while (result == VK_INCOMPLETE) {
    Check(function(&count, nullptr), name);
    items.resize(count);
    result = function(&count, items.data());
  }
  Check(result, name);
  items.resize(count);
  return items;
}

int Rank(const PhysicalDevice& device) {
  switch (device.properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return 4;
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return 3;
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return 2;
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return 1;
    default:
      return 0;
  }
}

struct ComputeFamily {
  uint32_t index = 0;
  uint32_t queue_count = 0;
};

// The compute family with the most queues; the first of them, which is the general one on most drivers.
ComputeFamily FindComputeFamily(const Instance& instance, VkPhysicalDevice physical) {
  const InstanceFunctions& vk = instance.Functions();
  uint32_t count = 0;
  vk.GetPhysicalDeviceQueueFamilyProperties(physical, &count, nullptr);
  std::vector<VkQueueFamilyProperties> families(count);
  vk.GetPhysicalDeviceQueueFamilyProperties(physical, &count, families.data());
  ComputeFamily best;
  for (uint32_t i = 0; i < count; ++i) {
    if ((families[i].queueFlags & VK_QUEUE_COMPUTE_BIT) != 0 && families[i].queueCount > best.queue_count) {
      best = {i, families[i].queueCount};
    }
  }
  if (best.queue_count == 0) throw Error("the device has no compute queue; choose another with --device");
  return best;
}

}  // namespace

void Check(VkResult result, const char* call) {
  if (result == VK_SUCCESS) return;
  const char* name = ResultName(result);
  throw Error(std::string(call) + " failed: " + (name != nullptr ? name : std::to_string(result)));
}

const char* PhysicalDevice::TypeName() const {
  switch (properties.deviceType) {
    case VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU:
      return "discrete";
    case VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU:
      return "integrated";
    case VK_PHYSICAL_DEVICE_TYPE_VIRTUAL_GPU:
      return "virtual";
    case VK_PHYSICAL_DEVICE_TYPE_CPU:
      return "cpu";
    default:
      return "other";
  }
}

Instance::Instance() : get_proc_addr_(LoadLoader()) {
  PFN_vkEnumerateInstanceExtensionProperties enumerate = nullptr;
  Load(enumerate, get_proc_addr_, VkInstance{}, "vkEnumerateInstanceExtensionProperties");
  const auto available = Enumerate<VkExtensionProperties>(
      [&](uint32_t* count, VkExtensionProperties* out) { return enumerate(nullptr, count, out); },
      "vkEnumerateInstanceExtensionProperties");

  std::vector<const char*> extensions;
  has_debug_utils_ = Contains(available, VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  if (has_debug_utils_) extensions.push_back(VK_EXT_DEBUG_UTILS_EXTENSION_NAME);
  // Without it the loader hides drivers that sit on another interface, such as MoltenVK.
  const bool portability = Contains(available, VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);
  if (portability) extensions.push_back(VK_KHR_PORTABILITY_ENUMERATION_EXTENSION_NAME);

  VkApplicationInfo application{};
  application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
  application.pApplicationName = "smeltr-demo";
  application.apiVersion = VK_API_VERSION_1_1;
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  info.flags = portability ? VkInstanceCreateFlags{VK_INSTANCE_CREATE_ENUMERATE_PORTABILITY_BIT_KHR} : 0;
  info.pApplicationInfo = &application;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  PFN_vkCreateInstance create = nullptr;
  Load(create, get_proc_addr_, VkInstance{}, "vkCreateInstance");
  const VkResult result = create(&info, nullptr, &handle_);
  if (result == VK_ERROR_INCOMPATIBLE_DRIVER) {
    throw Error(std::string("no Vulkan driver found; ") + kInstallHint);
  }
  Check(result, "vkCreateInstance");

#define SMELTR_DEMO_LOAD(name) Load(functions_.name, get_proc_addr_, handle_, "vk" #name);
  SMELTR_DEMO_INSTANCE_FUNCTIONS(SMELTR_DEMO_LOAD)
#undef SMELTR_DEMO_LOAD
}

Instance::~Instance() { functions_.DestroyInstance(handle_, nullptr); }

std::vector<PhysicalDevice> Instance::PhysicalDevices() const {
  const auto handles = Enumerate<VkPhysicalDevice>(
      [this](uint32_t* count, VkPhysicalDevice* out) {
        return functions_.EnumeratePhysicalDevices(handle_, count, out);
      },
      "vkEnumeratePhysicalDevices");
  std::vector<PhysicalDevice> devices;
  for (const VkPhysicalDevice handle : handles) {
    PhysicalDevice& device = devices.emplace_back();
    device.handle = handle;
    functions_.GetPhysicalDeviceProperties(handle, &device.properties);
  }
  return devices;
}

PhysicalDevice Instance::Choose(int index) const {
  const std::vector<PhysicalDevice> devices = PhysicalDevices();
  if (devices.empty()) throw Error(std::string("no Vulkan device found; ") + kInstallHint);
  if (index >= static_cast<int>(devices.size())) {
    throw Error("no device " + std::to_string(index) + "; --list-devices shows those there are");
  }
  const auto by_rank = [](const PhysicalDevice& a, const PhysicalDevice& b) { return Rank(a) < Rank(b); };
  const PhysicalDevice& chosen = index >= 0 ? devices[static_cast<size_t>(index)]
                                            : *std::max_element(devices.begin(), devices.end(), by_rank);
  if (chosen.properties.apiVersion < VK_API_VERSION_1_1) {
    throw Error(std::string(chosen.Name()) +
                " has Vulkan 1.0 and 1.1 is needed; choose another with --device");
  }
  return chosen;
}

uint32_t ComputeQueueCount(const Instance& instance, const PhysicalDevice& physical, uint32_t wanted) {
  return std::min(wanted, FindComputeFamily(instance, physical.handle).queue_count);
}

Device::Device(const Instance& instance, const PhysicalDevice& physical, uint32_t queue_count) {
  const InstanceFunctions& vk = instance.Functions();
  vk.GetPhysicalDeviceMemoryProperties(physical.handle, &memory_);
  queue_family_ = FindComputeFamily(instance, physical.handle).index;
  const auto available = Enumerate<VkExtensionProperties>(
      [&](uint32_t* count, VkExtensionProperties* out) {
        return vk.EnumerateDeviceExtensionProperties(physical.handle, nullptr, count, out);
      },
      "vkEnumerateDeviceExtensionProperties");
  // A device that offers it requires it to be enabled.
  std::vector<const char*> extensions;
  if (Contains(available, "VK_KHR_portability_subset")) extensions.push_back("VK_KHR_portability_subset");

  const std::vector<float> priorities(queue_count, 1.0f);
  VkDeviceQueueCreateInfo queue_info{};
  queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
  queue_info.queueFamilyIndex = queue_family_;
  queue_info.queueCount = queue_count;
  queue_info.pQueuePriorities = priorities.data();
  VkDeviceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
  info.queueCreateInfoCount = 1;
  info.pQueueCreateInfos = &queue_info;
  info.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  info.ppEnabledExtensionNames = extensions.data();
  Check(vk.CreateDevice(physical.handle, &info, nullptr, &handle_), "vkCreateDevice");

#define SMELTR_DEMO_LOAD(name) Load(functions_.name, vk.GetDeviceProcAddr, handle_, "vk" #name);
  SMELTR_DEMO_DEVICE_FUNCTIONS(SMELTR_DEMO_LOAD)
#undef SMELTR_DEMO_LOAD
  if (instance.HasDebugUtils()) {
    Load(functions_.SetDebugUtilsObjectNameEXT, instance.GetProcAddr(), instance.Handle(),
         "vkSetDebugUtilsObjectNameEXT");
  }
  queues_.resize(queue_count);
  for (uint32_t i = 0; i < queue_count; ++i)
    functions_.GetDeviceQueue(handle_, queue_family_, i, &queues_[i]);
}

Device::~Device() { functions_.DestroyDevice(handle_, nullptr); }

uint32_t Device::MemoryType(uint32_t allowed_bits, VkMemoryPropertyFlags wanted) const {
  for (uint32_t i = 0; i < memory_.memoryTypeCount; ++i) {
    const bool allowed = ((allowed_bits >> i) & 1) != 0;
    if (allowed && (memory_.memoryTypes[i].propertyFlags & wanted) == wanted) return i;
  }
  throw Error("the Vulkan driver has no suitable memory type");
}

void Device::SetRawName(VkObjectType type, uint64_t handle, const char* name) const {
  if (functions_.SetDebugUtilsObjectNameEXT == nullptr) return;
  VkDebugUtilsObjectNameInfoEXT info{};
  info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT;
  info.objectType = type;
  info.objectHandle = handle;
  info.pObjectName = name;
  Check(functions_.SetDebugUtilsObjectNameEXT(handle_, &info), "vkSetDebugUtilsObjectNameEXT");
}

Buffer::Buffer(const Device& device, const char* name, VkDeviceSize size_bytes, VkBufferUsageFlags usage,
               BufferHome home)
    : size_bytes_(size_bytes) {
  const DeviceFunctions& vk = device.Functions();
  VkBufferCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
  info.size = size_bytes;
  info.usage = usage;
  VkBuffer buffer = VK_NULL_HANDLE;
  Check(vk.CreateBuffer(device.Handle(), &info, nullptr, &buffer), "vkCreateBuffer");
  buffer_ = OwnedBuffer(device, buffer);
  device.SetName(VK_OBJECT_TYPE_BUFFER, buffer, name);

  VkMemoryRequirements requirements{};
  vk.GetBufferMemoryRequirements(device.Handle(), buffer, &requirements);
  const VkMemoryPropertyFlags properties =
      home == BufferHome::kHost ? VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT
                                : VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT;
  VkMemoryAllocateInfo allocation{};
  allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
  allocation.allocationSize = requirements.size;
  allocation.memoryTypeIndex = device.MemoryType(requirements.memoryTypeBits, properties);
  VkDeviceMemory memory = VK_NULL_HANDLE;
  Check(vk.AllocateMemory(device.Handle(), &allocation, nullptr, &memory), "vkAllocateMemory");
  memory_ = OwnedMemory(device, memory);
  device.SetName(VK_OBJECT_TYPE_DEVICE_MEMORY, memory, name);
  Check(vk.BindBufferMemory(device.Handle(), buffer, memory, 0), "vkBindBufferMemory");
  if (home == BufferHome::kHost) {
    Check(vk.MapMemory(device.Handle(), memory, 0, VK_WHOLE_SIZE, 0, &mapped_), "vkMapMemory");
  }
}

}  // namespace smeltr::demo
