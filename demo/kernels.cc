#include "kernels.h"

#include <bit>
#include <span>

#include "model.h"
#include "shaders/attention_scores.h"
#include "shaders/attention_values.h"
#include "shaders/embed.h"
#include "shaders/matmul.h"
#include "shaders/residual_add.h"
#include "shaders/rms_norm.h"
#include "shaders/rope.h"
#include "shaders/sample_greedy.h"
#include "shaders/sample_seeded.h"
#include "shaders/silu_mul.h"
#include "shaders/softmax.h"

namespace smeltr::demo {
namespace {

struct KernelSource {
  Kernel kernel;
  const char* name;
  std::span<const uint32_t> code;
  std::array<uint32_t, 2> constants;  // Specialization constants 0 and 1; a shader may have fewer.
};

constexpr uint32_t kEpsilonBits = std::bit_cast<uint32_t>(kNormEpsilon);

const std::array<KernelSource, kKernelCount> kSources = {{
    {Kernel::kEmbed, "embed_f32", shader_embed, {kDim, 0}},
    {Kernel::kRmsNorm, "rms_norm_f32", shader_rms_norm, {kDim, kEpsilonBits}},
    {Kernel::kQkvMatmul, "qkv_matmul_f32", shader_matmul, {kDim, kDim}},
    {Kernel::kRope, "rope_f32", shader_rope, {kDim, kHeadDim}},
    {Kernel::kAttentionScores, "attention_scores_f32", shader_attention_scores, {kDim, kHeadDim}},
    {Kernel::kSoftmax, "softmax_f32", shader_softmax, {0, 0}},
    {Kernel::kAttentionValues, "attention_values_f32", shader_attention_values, {kDim, kHeadDim}},
    {Kernel::kAttentionOutMatmul, "out_matmul_f32", shader_matmul, {kDim, kDim}},
    {Kernel::kResidualAdd, "residual_add_f32", shader_residual_add, {kDim, 0}},
    {Kernel::kGateUpMatmul, "gate_up_matmul_f32", shader_matmul, {kHidden, kDim}},
    {Kernel::kSiluMul, "silu_mul_f32", shader_silu_mul, {kHidden, 0}},
    {Kernel::kDownMatmul, "down_matmul_f32", shader_matmul, {kDim, kHidden}},
    {Kernel::kLogitsMatmul, "logits_matmul_f32", shader_matmul, {kVocabulary, kDim}},
    {Kernel::kSampleGreedy, "sample_greedy_f32", shader_sample_greedy, {0, 0}},
    {Kernel::kSampleSeeded, "sample_seeded_f32", shader_sample_seeded, {0, 0}},
}};

OwnedSetLayout CreateSetLayout(const Device& device) {
  std::array<VkDescriptorSetLayoutBinding, kBindingCount> bindings{};
  for (uint32_t i = 0; i < kBindingCount; ++i) {
    bindings[i].binding = i;
    bindings[i].descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER;
    bindings[i].descriptorCount = 1;
    bindings[i].stageFlags = VK_SHADER_STAGE_COMPUTE_BIT;
  }
  VkDescriptorSetLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_LAYOUT_CREATE_INFO;
  info.bindingCount = kBindingCount;
  info.pBindings = bindings.data();
  VkDescriptorSetLayout layout = VK_NULL_HANDLE;
  Check(device.Functions().CreateDescriptorSetLayout(device.Handle(), &info, nullptr, &layout),
        "vkCreateDescriptorSetLayout");
  return {device, layout};
}

OwnedPipelineLayout CreateLayout(const Device& device, VkDescriptorSetLayout set_layout) {
  const VkPushConstantRange range{VK_SHADER_STAGE_COMPUTE_BIT, 0, sizeof(PushConstants)};
  VkPipelineLayoutCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_PIPELINE_LAYOUT_CREATE_INFO;
  info.setLayoutCount = 1;
  info.pSetLayouts = &set_layout;
  info.pushConstantRangeCount = 1;
  info.pPushConstantRanges = &range;
  VkPipelineLayout layout = VK_NULL_HANDLE;
  Check(device.Functions().CreatePipelineLayout(device.Handle(), &info, nullptr, &layout),
        "vkCreatePipelineLayout");
  return {device, layout};
}

OwnedShaderModule CreateModule(const Device& device, std::span<const uint32_t> code) {
  VkShaderModuleCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_SHADER_MODULE_CREATE_INFO;
  info.codeSize = code.size_bytes();
  info.pCode = code.data();
  VkShaderModule module = VK_NULL_HANDLE;
  Check(device.Functions().CreateShaderModule(device.Handle(), &info, nullptr, &module),
        "vkCreateShaderModule");
  return {device, module};
}

OwnedPipeline CreatePipeline(const Device& device, VkPipelineLayout layout, const KernelSource& source) {
  const OwnedShaderModule module = CreateModule(device, source.code);
  const std::array<VkSpecializationMapEntry, 2> entries = {{{0, 0, 4}, {1, 4, 4}}};
  VkSpecializationInfo constants{};
  constants.mapEntryCount = static_cast<uint32_t>(entries.size());
  constants.pMapEntries = entries.data();
  constants.dataSize = sizeof(source.constants);
  constants.pData = source.constants.data();
  VkComputePipelineCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMPUTE_PIPELINE_CREATE_INFO;
  info.stage.sType = VK_STRUCTURE_TYPE_PIPELINE_SHADER_STAGE_CREATE_INFO;
  info.stage.stage = VK_SHADER_STAGE_COMPUTE_BIT;
  info.stage.module = module.Get();
  info.stage.pName = "main";
  info.stage.pSpecializationInfo = &constants;
  info.layout = layout;
  VkPipeline pipeline = VK_NULL_HANDLE;
  Check(device.Functions().CreateComputePipelines(device.Handle(), VK_NULL_HANDLE, 1, &info, nullptr,
                                                  &pipeline),
        "vkCreateComputePipelines");
  device.SetName(VK_OBJECT_TYPE_PIPELINE, pipeline, source.name);
  return {device, pipeline};
}

}  // namespace

Kernels::Kernels(const Device& device)
    : set_layout_(CreateSetLayout(device)), layout_(CreateLayout(device, set_layout_.Get())) {
  for (const KernelSource& source : kSources) {
    pipelines_[static_cast<size_t>(source.kernel)] = CreatePipeline(device, layout_.Get(), source);
  }
}

}  // namespace smeltr::demo
