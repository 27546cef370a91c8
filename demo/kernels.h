// The compute kernels: one pipeline each, all with the same descriptor set layout and push constants.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "vulkan_context.h"

namespace smeltr::demo {

enum class Kernel : uint8_t {
  kEmbed,
  kRmsNorm,
  kQkvMatmul,
  kRope,
  kAttentionScores,
  kSoftmax,
  kAttentionValues,
  kAttentionOutMatmul,
  kResidualAdd,
  kGateUpMatmul,
  kSiluMul,
  kDownMatmul,
  kLogitsMatmul,
  kSampleGreedy,
  kSampleSeeded,
};
inline constexpr size_t kKernelCount = 15;

inline constexpr uint32_t kWorkgroupSize = 64;  // Invocations, in every kernel.
inline constexpr uint32_t kBindingCount = 3;    // 0 and 1 are read, 2 is written.

// Mirrors shaders/common.glsl.
struct PushConstants {
  uint32_t position = 0;
  uint32_t count = 0;
  uint32_t stride = 0;
  uint32_t offset = 0;
  float value = 0.0f;
};
static_assert(sizeof(PushConstants) == 20);

class Kernels {
 public:
  explicit Kernels(const Device& device);

  VkPipeline Pipeline(Kernel kernel) const { return pipelines_[static_cast<size_t>(kernel)].Get(); }
  VkPipelineLayout Layout() const { return layout_.Get(); }
  VkDescriptorSetLayout SetLayout() const { return set_layout_.Get(); }

 private:
  OwnedSetLayout set_layout_;
  OwnedPipelineLayout layout_;
  std::array<OwnedPipeline, kKernelCount> pipelines_;
};

}  // namespace smeltr::demo
