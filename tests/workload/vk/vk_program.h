// What every Vulkan test program needs: one instance, one device with its first compute queue, a buffer and
// two pipelines of the same shader. Ends the program with a message when anything fails that should not.
#pragma once

#include <vulkan/vulkan.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "vk/spin.h"

namespace vk_program {

inline void Check(VkResult result, const char* what) {
  if (result >= 0) return;
  std::fprintf(stderr, "%s: VkResult %d\n", what, result);
  std::exit(1);
}

struct Options {
  uint32_t api_version = VK_API_VERSION_1_1;
  bool debug_utils = false;
  uint32_t queue_count = 1;
  const void* device_chain = nullptr;
};

inline constexpr uint32_t kElements = 64 * 1024;
inline constexpr uint32_t kLocalSize = 64;

class Program {
 public:
  explicit Program(const Options& options = {}) : options_(options) {
    CreateInstance();
    CreateDevice();
    CreateData();
    CreatePipelines();
    VkCommandPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
    pool_info.flags = VK_COMMAND_POOL_CREATE_RESET_COMMAND_BUFFER_BIT;
    Check(vkCreateCommandPool(device, &pool_info, nullptr, &pool), "vkCreateCommandPool");
    VkFenceCreateInfo fence_info{};
    fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
    Check(vkCreateFence(device, &fence_info, nullptr, &fence), "vkCreateFence");
  }
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  // Everything destroyed in order. Not a destructor: some programs leave without it.
  void Destroy() {
    vkDeviceWaitIdle(device);
    vkDestroyFence(device, fence, nullptr);
    vkDestroyCommandPool(device, pool, nullptr);
    for (VkPipeline pipeline : pipelines) vkDestroyPipeline(device, pipeline, nullptr);
    vkDestroyPipelineLayout(device, layout, nullptr);
    vkDestroyDescriptorPool(device, descriptor_pool_, nullptr);
    vkDestroyDescriptorSetLayout(device, set_layout_, nullptr);
    vkDestroyBuffer(device, buffer, nullptr);
    vkFreeMemory(device, memory, nullptr);
    vkDestroyDevice(device, nullptr);
    vkDestroyInstance(instance, nullptr);
  }

  VkCommandBuffer Allocate(VkCommandBufferLevel level = VK_COMMAND_BUFFER_LEVEL_PRIMARY) const {
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool;
    info.level = level;
    info.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    Check(vkAllocateCommandBuffers(device, &info, &commands), "vkAllocateCommandBuffers");
    return commands;
  }

  static void Begin(VkCommandBuffer commands, VkCommandBufferUsageFlags flags) {
    VkCommandBufferInheritanceInfo inheritance{};
    inheritance.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_INHERITANCE_INFO;
    VkCommandBufferBeginInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO;
    info.flags = flags;
    info.pInheritanceInfo = &inheritance;
    Check(vkBeginCommandBuffer(commands, &info), "vkBeginCommandBuffer");
  }
  static void End(VkCommandBuffer commands) { Check(vkEndCommandBuffer(commands), "vkEndCommandBuffer"); }

  static void Barrier(VkCommandBuffer commands) {
    VkMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_SHADER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_SHADER_READ_BIT | VK_ACCESS_SHADER_WRITE_BIT;
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT, VK_PIPELINE_STAGE_COMPUTE_SHADER_BIT,
                         0, 1, &barrier, 0, nullptr, 0, nullptr);
  }

  // One dispatch of pipeline `which`, 0 or 1, and a barrier behind it.
  void Dispatch(VkCommandBuffer commands, uint32_t which, uint32_t groups, uint32_t rounds) const {
    vkCmdBindPipeline(commands, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines[which]);
    vkCmdBindDescriptorSets(commands, VK_PIPELINE_BIND_POINT_COMPUTE, layout, 0, 1, &descriptors_, 0,
                            nullptr);
    vkCmdPushConstants(commands, layout, VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(rounds), &rounds);
    vkCmdDispatch(commands, groups, 1, 1);
    Barrier(commands);
  }

  void Submit(VkCommandBuffer commands, VkFence signal, uint32_t queue_index = 0) const {
    VkSubmitInfo info{};
    info.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    info.commandBufferCount = 1;
    info.pCommandBuffers = &commands;
    Check(vkQueueSubmit(queues[queue_index], 1, &info, signal), "vkQueueSubmit");
  }
  void SubmitAndWait(VkCommandBuffer commands) const {
    Submit(commands, fence);
    Check(vkWaitForFences(device, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    Check(vkResetFences(device, 1, &fence), "vkResetFences");
  }

  // A checksum of the buffer: what the program computed, whoever watched.
  uint32_t Checksum() const {
    void* data = nullptr;
    Check(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &data), "vkMapMemory");
    uint32_t sum = 0;
    for (uint32_t i = 0; i < kElements; ++i) sum = sum * 31 + static_cast<const uint32_t*>(data)[i];
    vkUnmapMemory(device, memory);
    return sum;
  }

  void Name(VkObjectType type, uint64_t handle, const char* name) const {
    const auto set = reinterpret_cast<PFN_vkSetDebugUtilsObjectNameEXT>(
        vkGetInstanceProcAddr(instance, "vkSetDebugUtilsObjectNameEXT"));
    VkDebugUtilsObjectNameInfoEXT info{};
    info.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_OBJECT_NAME_INFO_EXT;
    info.objectType = type;
    info.objectHandle = handle;
    info.pObjectName = name;
    Check(set(device, &info), "vkSetDebugUtilsObjectNameEXT");
  }

  VkInstance instance = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  VkDevice device = VK_NULL_HANDLE;
  std::vector<VkQueue> queues;
  VkCommandPool pool = VK_NULL_HANDLE;
  VkFence fence = VK_NULL_HANDLE;
  VkBuffer buffer = VK_NULL_HANDLE;
  VkDeviceMemory memory = VK_NULL_HANDLE;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  VkPipeline pipelines[2] = {};

 private:
  void CreateInstance() {
    VkApplicationInfo application{};
    application.sType = VK_STRUCTURE_TYPE_APPLICATION_INFO;
    application.pApplicationName = "vk_program";
    application.apiVersion = options_.api_version;
    const char* debug_utils = VK_EXT_DEBUG_UTILS_EXTENSION_NAME;
    VkInstanceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
    info.pApplicationInfo = &application;
    info.enabledExtensionCount = options_.debug_utils ? 1 : 0;
    info.ppEnabledExtensionNames = &debug_utils;
    Check(vkCreateInstance(&info, nullptr, &instance), "vkCreateInstance");
    uint32_t count = 1;
    Check(vkEnumeratePhysicalDevices(instance, &count, &physical), "vkEnumeratePhysicalDevices");
  }

  void CreateDevice() {
    const std::vector<float> priorities(options_.queue_count, 1.0F);
    VkDeviceQueueCreateInfo queue_info{};
    queue_info.sType = VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO;
    queue_info.queueCount = options_.queue_count;
    queue_info.pQueuePriorities = priorities.data();
    VkDeviceCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO;
    info.pNext = options_.device_chain;
    info.queueCreateInfoCount = 1;
    info.pQueueCreateInfos = &queue_info;
    Check(vkCreateDevice(physical, &info, nullptr, &device), "vkCreateDevice");
    queues.resize(options_.queue_count);
    for (uint32_t i = 0; i < options_.queue_count; ++i) vkGetDeviceQueue(device, 0, i, &queues[i]);
  }

  void CreateData() {
    VkBufferCreateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO;
    info.size = kElements * sizeof(uint32_t);
    info.usage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT | VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                 VK_BUFFER_USAGE_TRANSFER_DST_BIT | VK_BUFFER_USAGE_INDIRECT_BUFFER_BIT;
    Check(vkCreateBuffer(device, &info, nullptr, &buffer), "vkCreateBuffer");
    VkMemoryRequirements needs{};
    vkGetBufferMemoryRequirements(device, buffer, &needs);
    VkPhysicalDeviceMemoryProperties types{};
    vkGetPhysicalDeviceMemoryProperties(physical, &types);
    const VkMemoryPropertyFlags wanted =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    VkMemoryAllocateInfo allocation{};
    allocation.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO;
    allocation.allocationSize = needs.size;
    for (uint32_t i = types.memoryTypeCount; i-- > 0;) {
      if ((needs.memoryTypeBits >> i & 1) != 0 && (types.memoryTypes[i].propertyFlags & wanted) == wanted) {
        allocation.memoryTypeIndex = i;
      }
    }
    Check(vkAllocateMemory(device, &allocation, nullptr, &memory), "vkAllocateMemory");
    Check(vkBindBufferMemory(device, buffer, memory, 0), "vkBindBufferMemory");
    void* data = nullptr;
    Check(vkMapMemory(device, memory, 0, VK_WHOLE_SIZE, 0, &data), "vkMapMemory");
    for (uint32_t i = 0; i < kElements; ++i) static_cast<uint32_t*>(data)[i] = i;
    vkUnmapMemory(device, memory);
  }

  void CreatePipelines() {
    VkDescriptorSetLayoutBinding binding{};
    binding.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    binding.descriptorCount = 1;
    binding.stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
    VkDescriptorSetLayoutCreateInfo set_info{};
    set_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
    set_info.bindingCount = 1;
    set_info.pBindings = &binding;
    Check(vkCreateDescriptorSetLayout(device, &set_info, nullptr, &set_layout_),
          "vkCreateDescriptorSetLayout");
    const VkPushConstantRange push{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(uint32_t)};
    VkPipelineLayoutCreateInfo layout_info{};
    layout_info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
    layout_info.setLayoutCount = 1;
    layout_info.pSetLayouts = &set_layout_;
    layout_info.pushConstantRangeCount = 1;
    layout_info.pPushConstantRanges = &push;
    Check(vkCreatePipelineLayout(device, &layout_info, nullptr, &layout), "vkCreatePipelineLayout");

    VkShaderModuleCreateInfo module_info{};
    module_info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
    module_info.codeSize = sizeof(kSpinCode);
    module_info.pCode = kSpinCode;
    VkShaderModule module = VK_NULL_HANDLE;
    Check(vkCreateShaderModule(device, &module_info, nullptr, &module), "vkCreateShaderModule");
    const VkSpecializationMapEntry entries[2] = {{0, 0, sizeof(uint32_t)},
                                                 {1, sizeof(uint32_t), sizeof(uint32_t)}};
    for (uint32_t i = 0; i < 2; ++i) {
      const uint32_t constants[2] = {kLocalSize, i + 1};
      const VkSpecializationInfo special{2, entries, sizeof(constants), constants};
      VkComputePipelineCreateInfo info{};
      info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
      info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
      info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
      info.stage.module = module;
      info.stage.pName = "main";
      info.stage.pSpecializationInfo = &special;
      info.layout = layout;
      Check(vkCreateComputePipelines(device, VK_NULL_HANDLE, 1, &info, nullptr, &pipelines[i]),
            "vkCreateComputePipelines");
    }
    vkDestroyShaderModule(device, module, nullptr);

    const VkDescriptorPoolSize size{VK_DESCRIPTOR_TYPE_STORAGE_BUFFER, 1};
    VkDescriptorPoolCreateInfo pool_info{};
    pool_info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO;
    pool_info.maxSets = 1;
    pool_info.poolSizeCount = 1;
    pool_info.pPoolSizes = &size;
    Check(vkCreateDescriptorPool(device, &pool_info, nullptr, &descriptor_pool_), "vkCreateDescriptorPool");
    VkDescriptorSetAllocateInfo allocate{};
    allocate.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO;
    allocate.descriptorPool = descriptor_pool_;
    allocate.descriptorSetCount = 1;
    allocate.pSetLayouts = &set_layout_;
    Check(vkAllocateDescriptorSets(device, &allocate, &descriptors_), "vkAllocateDescriptorSets");
    const VkDescriptorBufferInfo data{buffer, 0, VK_WHOLE_SIZE};
    VkWriteDescriptorSet write{};
    write.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET;
    write.dstSet = descriptors_;
    write.descriptorCount = 1;
    write.descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    write.pBufferInfo = &data;
    vkUpdateDescriptorSets(device, 1, &write, 0, nullptr);
  }

  Options options_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkDescriptorPool descriptor_pool_ = VK_NULL_HANDLE;
  VkDescriptorSet descriptors_ = VK_NULL_HANDLE;
};

}  // namespace vk_program
