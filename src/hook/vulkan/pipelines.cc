// Shader modules and pipelines: which code an op runs, and what it is called.

#include <cstring>
#include <new>

#include "hook/vulkan/hooks.h"

namespace smeltr::hook::vulkan {
namespace {

template <typename T>
const T* FindInChain(const void* chain, VkStructureType type) {
  for (auto* next = static_cast<const VkBaseInStructure*>(chain); next != nullptr; next = next->pNext) {
    if (next->sType == type) return reinterpret_cast<const T*>(next);
  }
  return nullptr;
}

std::span<const uint32_t> WordsOf(const VkShaderModuleCreateInfo& info) {
  return {info.pCode, info.codeSize / sizeof(uint32_t)};
}

std::vector<SpecializationValue> ValuesOf(const VkSpecializationInfo* info) {
  std::vector<SpecializationValue> values;
  if (info == nullptr) return values;
  for (uint32_t i = 0; i < info->mapEntryCount; ++i) {
    const VkSpecializationMapEntry& entry = info->pMapEntries[i];
    SpecializationValue value{.constant_id = entry.constantID, .bits = 0};
    if (entry.size > sizeof(value.bits) || entry.offset + entry.size > info->dataSize) continue;
    std::memcpy(&value.bits, static_cast<const char*>(info->pData) + entry.offset, entry.size);
    values.push_back(value);
  }
  return values;
}

// Adds one stage to what is known of a pipeline. The symbol is that of the first stage that has one.
struct PipelineIdentity {
  uint64_t hash = 0;
  std::string symbol;
  uint32_t local[3] = {0, 0, 0};

  void Add(Device& device, const VkPipelineShaderStageCreateInfo& stage) {
    const std::vector<SpecializationValue> values = ValuesOf(stage.pSpecializationInfo);
    const std::lock_guard lock(device.names_mutex);
    const Module* module = device.modules.Find(HandleKey(stage.module));
    if (module != nullptr) return Add(IdentifyStage(module->facts, stage.pName, module->debug_name, values));
    // The code may hang on the stage itself.
    const auto* inlined =
        FindInChain<VkShaderModuleCreateInfo>(stage.pNext, VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO);
    if (inlined != nullptr) Add(IdentifyStage(ReadSpirv(WordsOf(*inlined)), stage.pName, {}, values));
  }
  void Add(const StageIdentity& stage) {
    hash = hash == 0 ? stage.hash : HashMix(hash, stage.hash);
    if (symbol.empty()) symbol = stage.symbol;
    if (local[0] == 0) std::memcpy(local, stage.local, sizeof(local));
  }
  void AddLibraries(Device& device, const void* chain) {
    const auto* libraries = FindInChain<VkPipelineLibraryCreateInfoKHR>(
        chain, VK_STRUCTURE_TYPE_PIPELINE_LIBRARY_CREATE_INFO_KHR);
    for (uint32_t i = 0; libraries != nullptr && i < libraries->libraryCount; ++i) {
      const Pipeline* part = device.pipelines.Find(HandleKey(libraries->pLibraries[i]));
      if (part == nullptr) continue;
      const Kernel& kernel = *part->kernel.load(std::memory_order_acquire);
      hash = hash == 0 ? kernel.hash : HashMix(hash, kernel.hash);
      if (symbol.empty()) symbol = kernel.symbol;
    }
  }
};

void Remember(Device& device, VkPipeline handle, const PipelineIdentity& identity) {
  if (handle == VK_NULL_HANDLE) return;
  auto* pipeline = new (std::nothrow) Pipeline;
  if (pipeline == nullptr) return Skip(kApi, event::SkipReason::kTableFull, "pipelines");
  pipeline->unnamed =
      identity.hash != 0 ? InternKernel(identity.hash, identity.symbol, identity.local) : UnknownKernel();
  pipeline->kernel.store(pipeline->unnamed, std::memory_order_release);
  // Handles need not be unique: the same pipeline may come back twice, and the older entry goes.
  delete device.pipelines.Insert(HandleKey(handle), pipeline);
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL CreateShaderModule(VkDevice handle, const VkShaderModuleCreateInfo* info,
                                                  const VkAllocationCallbacks* allocator,
                                                  VkShaderModule* module) {
  Device& device = *FindDevice(handle);
  const VkResult result = device.next.CreateShaderModule(handle, info, allocator, module);
  if (result != VK_SUCCESS || !device.recorded()) return Report(device, "vkCreateShaderModule", result);
  auto* state = new (std::nothrow) Module;
  if (state == nullptr) return result;
  state->facts = ReadSpirv(WordsOf(*info));
  const std::lock_guard lock(device.names_mutex);
  delete device.modules.Insert(HandleKey(*module), state);
  return result;
}

VKAPI_ATTR void VKAPI_CALL DestroyShaderModule(VkDevice handle, VkShaderModule module,
                                               const VkAllocationCallbacks* allocator) {
  Device& device = *FindDevice(handle);
  if (device.recorded()) {
    const std::lock_guard lock(device.names_mutex);
    delete device.modules.Remove(HandleKey(module));
  }
  device.next.DestroyShaderModule(handle, module, allocator);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateComputePipelines(VkDevice handle, VkPipelineCache cache, uint32_t count,
                                                      const VkComputePipelineCreateInfo* infos,
                                                      const VkAllocationCallbacks* allocator,
                                                      VkPipeline* pipelines) {
  Device& device = *FindDevice(handle);
  const VkResult result =
      device.next.CreateComputePipelines(handle, cache, count, infos, allocator, pipelines);
  if (!device.recorded()) return result;
  for (uint32_t i = 0; i < count && result >= 0; ++i) {
    PipelineIdentity identity;
    identity.Add(device, infos[i].stage);
    Remember(device, pipelines[i], identity);
  }
  return Report(device, "vkCreateComputePipelines", result);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateGraphicsPipelines(VkDevice handle, VkPipelineCache cache, uint32_t count,
                                                       const VkGraphicsPipelineCreateInfo* infos,
                                                       const VkAllocationCallbacks* allocator,
                                                       VkPipeline* pipelines) {
  Device& device = *FindDevice(handle);
  const VkResult result =
      device.next.CreateGraphicsPipelines(handle, cache, count, infos, allocator, pipelines);
  if (!device.recorded()) return result;
  for (uint32_t i = 0; i < count && result >= 0; ++i) {
    PipelineIdentity identity;
    for (uint32_t j = 0; j < infos[i].stageCount; ++j) identity.Add(device, infos[i].pStages[j]);
    identity.AddLibraries(device, infos[i].pNext);
    Remember(device, pipelines[i], identity);
  }
  return Report(device, "vkCreateGraphicsPipelines", result);
}

VKAPI_ATTR VkResult VKAPI_CALL CreateRayTracingPipelinesKHR(VkDevice handle, VkDeferredOperationKHR operation,
                                                            VkPipelineCache cache, uint32_t count,
                                                            const VkRayTracingPipelineCreateInfoKHR* infos,
                                                            const VkAllocationCallbacks* allocator,
                                                            VkPipeline* pipelines) {
  Device& device = *FindDevice(handle);
  if (device.next.CreateRayTracingPipelinesKHR == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  const VkResult result =
      device.next.CreateRayTracingPipelinesKHR(handle, operation, cache, count, infos, allocator, pipelines);
  // Deferred: the handles come later, and ops with them stay without a name.
  if (!device.recorded() || result == VK_OPERATION_DEFERRED_KHR) return result;
  for (uint32_t i = 0; i < count && result >= 0; ++i) {
    PipelineIdentity identity;
    for (uint32_t j = 0; j < infos[i].stageCount; ++j) identity.Add(device, infos[i].pStages[j]);
    Remember(device, pipelines[i], identity);
  }
  return Report(device, "vkCreateRayTracingPipelinesKHR", result);
}

VKAPI_ATTR void VKAPI_CALL DestroyPipeline(VkDevice handle, VkPipeline pipeline,
                                           const VkAllocationCallbacks* allocator) {
  Device& device = *FindDevice(handle);
  if (device.recorded()) delete device.pipelines.Remove(HandleKey(pipeline));
  device.next.DestroyPipeline(handle, pipeline, allocator);
}

}  // namespace smeltr::hook::vulkan
