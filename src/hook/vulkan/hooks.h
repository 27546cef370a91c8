// The functions the program calls in place of the next layer's: one for each HOOK of functions.def, under the
// Vulkan name without "vk".
#pragma once

#include <type_traits>

#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

#define HOOK(name) std::remove_pointer_t<PFN_vk##name> name;
#include "hook/vulkan/functions.def"

std::remove_pointer_t<PFN_vkCreateInstance> CreateInstance;
std::remove_pointer_t<PFN_vkDestroyInstance> DestroyInstance;
std::remove_pointer_t<PFN_vkCreateDevice> CreateDevice;
std::remove_pointer_t<PFN_vkGetInstanceProcAddr> GetInstanceProcAddr;
std::remove_pointer_t<PFN_vkGetDeviceProcAddr> GetDeviceProcAddr;

}  // namespace smeltr::hook::vulkan
