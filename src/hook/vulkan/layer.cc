// The layer's only export, and which functions of a chain are ours.

#include <string_view>

#include "hook/vulkan/hooks.h"

namespace smeltr::hook::vulkan {
namespace {

struct NamedHook {
  std::string_view name;
  PFN_vkVoidFunction hook;
};

PFN_vkVoidFunction FindDeviceHook(std::string_view name) {
  const NamedHook hooks[] = {
#define HOOK(function) {"vk" #function, reinterpret_cast<PFN_vkVoidFunction>(&function)},
#define ALIAS(alias, function) {"vk" #alias, reinterpret_cast<PFN_vkVoidFunction>(&function)},
#include "hook/vulkan/functions.def"
  };
  for (const NamedHook& hook : hooks) {
    if (hook.name == name) return hook.hook;
  }
  return nullptr;
}

PFN_vkVoidFunction FindInstanceHook(std::string_view name) {
  const NamedHook hooks[] = {
      {"vkGetInstanceProcAddr", reinterpret_cast<PFN_vkVoidFunction>(&GetInstanceProcAddr)},
      {"vkCreateInstance", reinterpret_cast<PFN_vkVoidFunction>(&CreateInstance)},
      {"vkDestroyInstance", reinterpret_cast<PFN_vkVoidFunction>(&DestroyInstance)},
      {"vkCreateDevice", reinterpret_cast<PFN_vkVoidFunction>(&CreateDevice)},
      {"vkGetDeviceProcAddr", reinterpret_cast<PFN_vkVoidFunction>(&GetDeviceProcAddr)},
  };
  for (const NamedHook& hook : hooks) {
    if (hook.name == name) return hook.hook;
  }
  return nullptr;
}

// Functions that exist only because we turned their extension on.
bool IsHidden(const DeviceTraits& traits, std::string_view name) {
  if (traits.hide_timeline && (name == "vkGetSemaphoreCounterValueKHR" || name == "vkWaitSemaphoresKHR" ||
                               name == "vkSignalSemaphoreKHR")) {
    return true;
  }
  if (traits.hide_host_query_reset && name == "vkResetQueryPoolEXT") return true;
  return traits.hide_calibrated_timestamps &&
         (name == "vkGetCalibratedTimestampsEXT" || name == "vkGetCalibratedTimestampsKHR");
}

}  // namespace

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetDeviceProcAddr(VkDevice handle, const char* name) {
  const Device* device = FindDevice(handle);
  if (device == nullptr) return nullptr;
  const std::string_view wanted = name;
  if (wanted == "vkGetDeviceProcAddr") return reinterpret_cast<PFN_vkVoidFunction>(&GetDeviceProcAddr);
  const PFN_vkVoidFunction next = device->next.GetDeviceProcAddr(handle, name);
  if (next == nullptr || IsHidden(device->traits, wanted)) return nullptr;
  if (device->passthrough && wanted != "vkDestroyDevice") return next;
  const PFN_vkVoidFunction hook = FindDeviceHook(wanted);
  return hook != nullptr ? hook : next;
}

VKAPI_ATTR PFN_vkVoidFunction VKAPI_CALL GetInstanceProcAddr(VkInstance handle, const char* name) {
  const std::string_view wanted = name;
  const PFN_vkVoidFunction own = FindInstanceHook(wanted);
  if (own != nullptr) return own;
  if (handle == VK_NULL_HANDLE) return nullptr;
  const Instance* instance = Instances().Find(DispatchKey(handle));
  if (instance == nullptr) return nullptr;
  const PFN_vkVoidFunction next = instance->next.GetInstanceProcAddr(handle, name);
  if (next == nullptr || instance->passthrough) return next;
  if (instance->hide_properties2 && wanted.starts_with("vkGetPhysicalDevice") && wanted.ends_with("2KHR")) {
    return nullptr;
  }
  const PFN_vkVoidFunction hook = FindDeviceHook(wanted);
  return hook != nullptr ? hook : next;
}

}  // namespace smeltr::hook::vulkan

extern "C" __attribute__((visibility("default"))) VKAPI_ATTR VkResult VKAPI_CALL
vkNegotiateLoaderLayerInterfaceVersion(VkNegotiateLayerInterface* negotiation) {
  if (negotiation == nullptr || negotiation->sType != LAYER_NEGOTIATE_INTERFACE_STRUCT ||
      negotiation->loaderLayerInterfaceVersion < 2) {
    return VK_ERROR_INITIALIZATION_FAILED;
  }
  negotiation->loaderLayerInterfaceVersion = 2;
  negotiation->pfnGetInstanceProcAddr = &smeltr::hook::vulkan::GetInstanceProcAddr;
  negotiation->pfnGetDeviceProcAddr = &smeltr::hook::vulkan::GetDeviceProcAddr;
  negotiation->pfnGetPhysicalDeviceProcAddr = nullptr;
  return VK_SUCCESS;
}
