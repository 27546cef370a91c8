#include "hook/vulkan/dispatch.h"

#include <type_traits>

namespace smeltr::hook::vulkan {

void DeviceTable::Load(VkDevice device, PFN_vkGetDeviceProcAddr next) {
  GetDeviceProcAddr = next;
#define HOOK(name) name = reinterpret_cast<PFN_vk##name>(next(device, "vk" #name));
#define CALL(name) HOOK(name)
#include "hook/vulkan/functions.def"
#define ALIAS(alias, name) \
  if (name == nullptr) name = reinterpret_cast<PFN_vk##name>(next(device, "vk" #alias));
#define CALL_ALIAS(alias, name) ALIAS(alias, name)
#include "hook/vulkan/functions.def"
}

void InstanceTable::Load(VkInstance instance, uint32_t api_version, PFN_vkGetInstanceProcAddr next) {
  GetInstanceProcAddr = next;
  const auto load = [&](auto& member, const char* name, const char* alias) {
    using Function = std::remove_reference_t<decltype(member)>;
    // The name a 1.0 program would have to use; a chain may well answer for the other, too.
    if (api_version < VK_API_VERSION_1_1 && alias != nullptr) name = alias;
    member = reinterpret_cast<Function>(next(instance, name));
    if (member == nullptr && alias != nullptr) member = reinterpret_cast<Function>(next(instance, alias));
  };
  load(DestroyInstance, "vkDestroyInstance", nullptr);
  load(EnumerateDeviceExtensionProperties, "vkEnumerateDeviceExtensionProperties", nullptr);
  load(GetPhysicalDeviceProperties, "vkGetPhysicalDeviceProperties", nullptr);
  load(GetPhysicalDeviceProperties2, "vkGetPhysicalDeviceProperties2", "vkGetPhysicalDeviceProperties2KHR");
  load(GetPhysicalDeviceFeatures2, "vkGetPhysicalDeviceFeatures2", "vkGetPhysicalDeviceFeatures2KHR");
  load(GetPhysicalDeviceMemoryProperties, "vkGetPhysicalDeviceMemoryProperties", nullptr);
  load(GetPhysicalDeviceMemoryProperties2, "vkGetPhysicalDeviceMemoryProperties2",
       "vkGetPhysicalDeviceMemoryProperties2KHR");
  load(GetPhysicalDeviceQueueFamilyProperties, "vkGetPhysicalDeviceQueueFamilyProperties", nullptr);
  load(GetPhysicalDeviceCalibrateableTimeDomainsEXT, "vkGetPhysicalDeviceCalibrateableTimeDomainsEXT",
       "vkGetPhysicalDeviceCalibrateableTimeDomainsKHR");
}

}  // namespace smeltr::hook::vulkan
