// The Vulkan functions the demo calls, each listed once. They are looked up at run time, so that a machine
// without a Vulkan loader gets a sentence from us and not from the dynamic linker.
#pragma once

#include <vulkan/vulkan.h>

// clang-format off
#define SMELTR_DEMO_INSTANCE_FUNCTIONS(X) \
  X(DestroyInstance) X(EnumeratePhysicalDevices) X(GetPhysicalDeviceProperties) \
  X(GetPhysicalDeviceMemoryProperties) X(GetPhysicalDeviceQueueFamilyProperties) \
  X(EnumerateDeviceExtensionProperties) X(CreateDevice) X(GetDeviceProcAddr)

#define SMELTR_DEMO_DEVICE_FUNCTIONS(X) \
  X(DestroyDevice) X(GetDeviceQueue) X(DeviceWaitIdle) X(QueueWaitIdle) X(QueueSubmit) \
  X(AllocateMemory) X(FreeMemory) X(MapMemory) X(CreateBuffer) X(DestroyBuffer) \
  X(GetBufferMemoryRequirements) X(BindBufferMemory) \
  X(CreateShaderModule) X(DestroyShaderModule) X(CreateComputePipelines) X(DestroyPipeline) \
  X(CreatePipelineLayout) X(DestroyPipelineLayout) X(CreateDescriptorSetLayout) \
  X(DestroyDescriptorSetLayout) X(CreateDescriptorPool) X(DestroyDescriptorPool) \
  X(AllocateDescriptorSets) X(UpdateDescriptorSets) \
  X(CreateCommandPool) X(DestroyCommandPool) X(ResetCommandPool) X(AllocateCommandBuffers) \
  X(BeginCommandBuffer) X(EndCommandBuffer) X(CmdBindPipeline) X(CmdBindDescriptorSets) \
  X(CmdPushConstants) X(CmdDispatch) X(CmdPipelineBarrier) X(CmdCopyBuffer) \
  X(CreateFence) X(DestroyFence) X(ResetFences) X(WaitForFences)
// clang-format on

namespace smeltr::demo {

struct InstanceFunctions {
#define SMELTR_DEMO_MEMBER(name) PFN_vk##name name = nullptr;
  SMELTR_DEMO_INSTANCE_FUNCTIONS(SMELTR_DEMO_MEMBER)
};

struct DeviceFunctions {
  SMELTR_DEMO_DEVICE_FUNCTIONS(SMELTR_DEMO_MEMBER)
#undef SMELTR_DEMO_MEMBER
  PFN_vkSetDebugUtilsObjectNameEXT SetDebugUtilsObjectNameEXT = nullptr;  // Null without VK_EXT_debug_utils.
};

}  // namespace smeltr::demo
