// A Vulkan layer that stands between smeltr's and the driver and makes the driver misbehave, as the
// environment says:
//   FAULT_DEVICE=1           the first vkCreateDevice fails after the layers below have done their part
//   FAULT_SUBMIT=n:code      the n-th submit call returns that VkResult without doing anything
//   FAULT_WAIT=n:code        likewise the n-th vkWaitForFences
//   FAULT_MEMORY=n:code      likewise the n-th vkAllocateMemory
//   FAULT_NO_TIMELINE=1      the device has no timeline semaphores
//   FAULT_NO_RESET=1         the device cannot reset queries from the host
//   FAULT_VALID_BITS=n       queues say their timestamps have n valid bits, and deliver only those
//   FAULT_TICK_OFFSET=n      timestamps are n ticks off
//   FAULT_NAME=1             the device does not say that it is llvmpipe
//   FAULT_HANG=1             submit calls are accepted and never carried out

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

namespace {

struct Fault {
  int at = 0;
  VkResult result = VK_SUCCESS;
};

Fault ReadFault(const char* name) {
  const char* text = std::getenv(name);
  if (text == nullptr) return {};
  const char* colon = std::strchr(text, ':');
  return {std::atoi(text), static_cast<VkResult>(colon != nullptr ? std::atoi(colon + 1) : -1)};
}
bool IsSet(const char* name) { return std::getenv(name) != nullptr; }
long long ReadNumber(const char* name, long long fallback) {
  const char* text = std::getenv(name);
  return text != nullptr ? std::atoll(text) : fallback;
}

// One instance and device at a time are enough for the tests.
PFN_vkGetInstanceProcAddr g_next_instance = nullptr;
PFN_vkGetDeviceProcAddr g_next_device = nullptr;
VkInstance g_instance = VK_NULL_HANDLE;
VkDevice g_device = VK_NULL_HANDLE;
std::atomic<int> g_devices{0};
std::atomic<int> g_submits{0};
std::atomic<int> g_waits{0};
std::atomic<int> g_allocations{0};

// Looked up while the instance is made: later the chain answers with its top.
PFN_vkGetPhysicalDeviceFeatures2 g_next_features = nullptr;
PFN_vkGetPhysicalDeviceQueueFamilyProperties g_next_families = nullptr;
PFN_vkGetPhysicalDeviceProperties g_next_properties = nullptr;

template <typename F>
F NextInstance(const char* name) {
  return reinterpret_cast<F>(g_next_instance(g_instance, name));
}
template <typename F>
F NextDevice(const char* name) {
  return reinterpret_cast<F>(g_next_device(g_device, name));
}

template <typename CreateInfo, typename LayerInfo>
LayerInfo* FindLink(const CreateInfo* info, VkStructureType type) {
  for (auto* next = static_cast<const LayerInfo*>(info->pNext); next != nullptr;
       next = static_cast<const LayerInfo*>(next->pNext)) {
    if (next->sType == type && next->function == VK_LAYER_LINK_INFO) return const_cast<LayerInfo*>(next);
  }
  return nullptr;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateInstance(const VkInstanceCreateInfo* info,
                                              const VkAllocationCallbacks* a, VkInstance* instance) {
  auto* link = FindLink<VkInstanceCreateInfo, VkLayerInstanceCreateInfo>(
      info, VK_STRUCTURE_TYPE_LOADER_INSTANCE_CREATE_INFO);
  g_next_instance = link->u.pLayerInfo->pfnNextGetInstanceProcAddr;
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(g_next_instance(nullptr, "vkCreateInstance"));
  const VkResult result = create(info, a, instance);
  if (result != VK_SUCCESS) return result;
  g_instance = *instance;
  g_next_features = NextInstance<PFN_vkGetPhysicalDeviceFeatures2>("vkGetPhysicalDeviceFeatures2");
  g_next_properties = NextInstance<PFN_vkGetPhysicalDeviceProperties>("vkGetPhysicalDeviceProperties");
  g_next_families =
      NextInstance<PFN_vkGetPhysicalDeviceQueueFamilyProperties>("vkGetPhysicalDeviceQueueFamilyProperties");
  return result;
}

VKAPI_ATTR VkResult VKAPI_CALL CreateDevice(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                            const VkAllocationCallbacks* a, VkDevice* device) {
  auto* link = FindLink<VkDeviceCreateInfo, VkLayerDeviceCreateInfo>(
      info, VK_STRUCTURE_TYPE_LOADER_DEVICE_CREATE_INFO);
  g_next_device = link->u.pLayerInfo->pfnNextGetDeviceProcAddr;
  const auto create = NextInstance<PFN_vkCreateDevice>("vkCreateDevice");
  link->u.pLayerInfo = link->u.pLayerInfo->pNext;
  if (IsSet("FAULT_DEVICE") && g_devices.fetch_add(1) == 0) return VK_ERROR_FEATURE_NOT_PRESENT;
  const VkResult result = create(physical, info, a, device);
  if (result == VK_SUCCESS) g_device = *device;
  return result;
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceFeatures2(VkPhysicalDevice physical,
                                                      VkPhysicalDeviceFeatures2* features) {
  g_next_features(physical, features);
  for (auto* next = static_cast<VkBaseOutStructure*>(features->pNext); next != nullptr; next = next->pNext) {
    if (IsSet("FAULT_NO_TIMELINE") &&
        next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_TIMELINE_SEMAPHORE_FEATURES) {
      reinterpret_cast<VkPhysicalDeviceTimelineSemaphoreFeatures*>(next)->timelineSemaphore = VK_FALSE;
    }
    if (IsSet("FAULT_NO_RESET") &&
        next->sType == VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_HOST_QUERY_RESET_FEATURES) {
      reinterpret_cast<VkPhysicalDeviceHostQueryResetFeatures*>(next)->hostQueryReset = VK_FALSE;
    }
  }
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceProperties(VkPhysicalDevice physical,
                                                       VkPhysicalDeviceProperties* properties) {
  g_next_properties(physical, properties);
  if (IsSet("FAULT_NAME")) std::memcpy(properties->deviceName, "somebody", 9);
}

VKAPI_ATTR void VKAPI_CALL GetPhysicalDeviceQueueFamilyProperties(VkPhysicalDevice physical, uint32_t* count,
                                                                  VkQueueFamilyProperties* families) {
  g_next_families(physical, count, families);
  const auto bits = ReadNumber("FAULT_VALID_BITS", -1);
  for (uint32_t i = 0; families != nullptr && bits >= 0 && i < *count; ++i) {
    families[i].timestampValidBits = static_cast<uint32_t>(bits);
  }
}

VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit(VkQueue queue, uint32_t count, const VkSubmitInfo* submits,
                                           VkFence fence) {
  static const Fault fault = ReadFault("FAULT_SUBMIT");
  if (IsSet("FAULT_HANG")) return VK_SUCCESS;
  if (g_submits.fetch_add(1) + 1 == fault.at) return fault.result;
  return NextDevice<PFN_vkQueueSubmit>("vkQueueSubmit")(queue, count, submits, fence);
}

VKAPI_ATTR VkResult VKAPI_CALL WaitForFences(VkDevice device, uint32_t count, const VkFence* fences,
                                             VkBool32 all, uint64_t timeout) {
  static const Fault fault = ReadFault("FAULT_WAIT");
  const VkResult result =
      NextDevice<PFN_vkWaitForFences>("vkWaitForFences")(device, count, fences, all, timeout);
  return g_waits.fetch_add(1) + 1 == fault.at ? fault.result : result;
}

VKAPI_ATTR VkResult VKAPI_CALL AllocateMemory(VkDevice device, const VkMemoryAllocateInfo* info,
                                              const VkAllocationCallbacks* a, VkDeviceMemory* memory) {
  static const Fault fault = ReadFault("FAULT_MEMORY");
  if (g_allocations.fetch_add(1) + 1 == fault.at) return fault.result;
  return NextDevice<PFN_vkAllocateMemory>("vkAllocateMemory")(device, info, a, memory);
}

VKAPI_ATTR VkResult VKAPI_CALL GetQueryPoolResults(VkDevice device, VkQueryPool pool, uint32_t first,
                                                   uint32_t count, size_t size, void* data,
                                                   VkDeviceSize stride, VkQueryResultFlags flags) {
  const VkResult result = NextDevice<PFN_vkGetQueryPoolResults>("vkGetQueryPoolResults")(
      device, pool, first, count, size, data, stride, flags);
  const auto offset = static_cast<uint64_t>(ReadNumber("FAULT_TICK_OFFSET", 0));
  const auto bits = ReadNumber("FAULT_VALID_BITS", 64);
  for (uint32_t i = 0; i < count; ++i) {
    uint64_t ticks = 0;
    char* at = static_cast<char*>(data) + i * stride;
    std::memcpy(&ticks, at, sizeof(ticks));
    ticks += offset;
    if (bits > 0 && bits < 64) ticks &= (uint64_t{1} << bits) - 1;
    std::memcpy(at, &ticks, sizeof(ticks));
  }
  return result;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name);
VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name);

PFN_vkVoidFunction Own(std::string_view name) {
  const auto function = [](auto* pointer) { return reinterpret_cast<PFN_vkVoidFunction>(pointer); };
  if (name == "vkGetInstanceProcAddr") return function(&GetInstanceProcAddr);
  if (name == "vkGetDeviceProcAddr") return function(&GetDeviceProcAddr);
  if (name == "vkCreateInstance") return function(&CreateInstance);
  if (name == "vkCreateDevice") return function(&CreateDevice);
  if (name == "vkGetPhysicalDeviceFeatures2") return function(&GetPhysicalDeviceFeatures2);
  if (name == "vkGetPhysicalDeviceProperties") return function(&GetPhysicalDeviceProperties);
  if (name == "vkGetPhysicalDeviceQueueFamilyProperties")
    return function(&GetPhysicalDeviceQueueFamilyProperties);
  if (name == "vkQueueSubmit") return function(&QueueSubmit);
  if (name == "vkWaitForFences") return function(&WaitForFences);
  if (name == "vkAllocateMemory") return function(&AllocateMemory);
  if (name == "vkGetQueryPoolResults") return function(&GetQueryPoolResults);
  return nullptr;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice device, const char* name) {
  // The driver's device is known to us only when vkCreateDevice has returned; the loader asks before.
  const PFN_vkVoidFunction own = Own(name);
  return own != nullptr ? own : g_next_device(device, name);
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance instance, const char* name) {
  const PFN_vkVoidFunction own = Own(name);
  return own != nullptr ? own : g_next_instance(instance, name);
}

}  // namespace

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* negotiation) {
  negotiation->loaderLayerInterfaceVersion = 2;
  negotiation->pfnGetInstanceProcAddr = &GetInstanceProcAddr;
  negotiation->pfnGetDeviceProcAddr = &GetDeviceProcAddr;
  negotiation->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
