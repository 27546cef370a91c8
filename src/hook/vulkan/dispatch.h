// The next layer's functions, of an instance and of a device.
#pragma once

#include <vulkan/vk_layer.h>
#include <vulkan/vulkan.h>

namespace smeltr::hook::vulkan {

// Any member may be null: the device does not have that function.
struct DeviceTable {
  PFN_vkGetDeviceProcAddr GetDeviceProcAddr = nullptr;
#define HOOK(name) PFN_vk##name name = nullptr;
#define CALL(name) PFN_vk##name name = nullptr;
#include "hook/vulkan/functions.def"

  // Core names first, then the extensions' names.
  void Load(VkDevice device, PFN_vkGetDeviceProcAddr next);
};

// All looked up inside vkCreateInstance: asked later, the chain answers with its top, which is us.
struct InstanceTable {
  PFN_vkGetInstanceProcAddr GetInstanceProcAddr = nullptr;
  PFN_vkDestroyInstance DestroyInstance = nullptr;
  PFN_vkEnumerateDeviceExtensionProperties EnumerateDeviceExtensionProperties = nullptr;
  PFN_vkGetPhysicalDeviceProperties GetPhysicalDeviceProperties = nullptr;
  PFN_vkGetPhysicalDeviceProperties2 GetPhysicalDeviceProperties2 = nullptr;
  PFN_vkGetPhysicalDeviceFeatures2 GetPhysicalDeviceFeatures2 = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties GetPhysicalDeviceMemoryProperties = nullptr;
  PFN_vkGetPhysicalDeviceMemoryProperties2 GetPhysicalDeviceMemoryProperties2 = nullptr;
  PFN_vkGetPhysicalDeviceQueueFamilyProperties GetPhysicalDeviceQueueFamilyProperties = nullptr;
  PFN_vkGetPhysicalDeviceCalibrateableTimeDomainsEXT GetPhysicalDeviceCalibrateableTimeDomainsEXT = nullptr;

  void Load(VkInstance instance, uint32_t api_version, PFN_vkGetInstanceProcAddr next);
};

}  // namespace smeltr::hook::vulkan
