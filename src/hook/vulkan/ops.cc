// Hooks of the commands of ops.def, and of what changes which pipeline they use.

#include <cstdlib>
#include <span>

#include "hook/vulkan/hooks.h"
#include "hook/vulkan/recording.h"

namespace smeltr::hook::vulkan {
namespace {

// "CmdCopyBuffer" -> "cmd_copy_buffer".
template <size_t kSize>
struct CommandName {
  char text[kSize * 2] = {};
  size_t length = 0;
  consteval explicit CommandName(const char (&name)[kSize]) {
    for (size_t i = 0; i + 1 < kSize; ++i) {
      const bool upper = name[i] >= 'A' && name[i] <= 'Z';
      const bool after_upper = i > 0 && name[i - 1] >= 'A' && name[i - 1] <= 'Z';
      if (upper && i > 0 && !after_upper) text[length++] = '_';
      text[length++] = upper ? static_cast<char>(name[i] - 'A' + 'a') : name[i];
    }
  }
  constexpr std::string_view view() const { return {text, length}; }
};

uint64_t Volume(const VkExtent3D& extent) { return uint64_t{extent.width} * extent.height * extent.depth; }

// Bytes, folded into the width that an op has for it.
uint32_t Size(uint64_t bytes) { return static_cast<uint32_t>(bytes ^ (bytes >> 32)); }

// Of all regions, bytes or texels.
template <typename Region>
uint32_t Size(uint32_t count, const Region* regions) {
  uint64_t sum = 0;
  for (const Region& region : std::span(regions, count)) {
    if constexpr (requires { region.size; }) {
      sum += region.size;
    } else if constexpr (requires { region.extent; }) {
      sum += Volume(region.extent);
    } else if constexpr (requires { region.imageExtent; }) {
      sum += Volume(region.imageExtent);
    } else {
      const auto side = [&](auto at) {
        return static_cast<uint32_t>(std::abs(region.dstOffsets[1].*at - region.dstOffsets[0].*at));
      };
      sum += Volume({side(&VkOffset3D::x), side(&VkOffset3D::y), side(&VkOffset3D::z)});
    }
  }
  return Size(sum);
}

#define OP(name, type, bind, parameters, arguments, x, y, z) \
  constexpr CommandName kNameOf##name(#name);                \
  constinit const Kernel kPlain##name{.hash = 0, .symbol = kNameOf##name.view(), .local = {0, 0, 0}};
#include "hook/vulkan/ops.def"

// `plain` is one of the constants above.
// NOLINTBEGIN(bugprone-return-const-ref-from-parameter)
const Kernel& KernelFor(const Recorder& recorder, BindPoint point, const Kernel& plain) {
  const Recording* recording = recorder.recording();
  if (recording == nullptr || point == BindPoint::kNone) return plain;
  const Kernel* bound = recording->bound[static_cast<size_t>(point)];
  return bound != nullptr ? *bound : plain;
}
// NOLINTEND(bugprone-return-const-ref-from-parameter)

}  // namespace

#define SMELTR_UNWRAP(...) __VA_OPT__(, ) __VA_ARGS__
#define OP(name, optype, bind, parameters, arguments, x, y, z)                                            \
  VKAPI_ATTR void VKAPI_CALL name(VkCommandBuffer commandBuffer SMELTR_UNWRAP parameters) {               \
    Recorder recorder(commandBuffer);                                                                     \
    if (recorder.next() == nullptr || recorder.next()->name == nullptr) return;                           \
    recorder.BeforeOp();                                                                                  \
    recorder.next()->name(commandBuffer SMELTR_UNWRAP arguments);                                         \
    recorder.AfterOp(KernelFor(recorder, BindPoint::bind, kPlain##name), event::OpType::optype, x, y, z); \
  }
#include "hook/vulkan/ops.def"

VKAPI_ATTR void VKAPI_CALL CmdBindPipeline(VkCommandBuffer commandBuffer, VkPipelineBindPoint bindPoint,
                                           VkPipeline pipeline) {
  const Recorder recorder(commandBuffer);
  if (recorder.next() == nullptr) return;
  recorder.next()->CmdBindPipeline(commandBuffer, bindPoint, pipeline);
  Recording* recording = recorder.recording();
  if (recording == nullptr) return;
  const BindPoint point = bindPoint == VK_PIPELINE_BIND_POINT_COMPUTE    ? BindPoint::kCompute
                          : bindPoint == VK_PIPELINE_BIND_POINT_GRAPHICS ? BindPoint::kGraphics
                                                                         : BindPoint::kRayTracing;
  const Pipeline* known = recording->device->pipelines.Find(HandleKey(pipeline));
  const Kernel* kernel = known != nullptr ? known->kernel.load(std::memory_order_acquire) : nullptr;
  recording->bound[static_cast<size_t>(point)] = kernel != nullptr ? kernel : UnknownKernel();
}

VKAPI_ATTR void VKAPI_CALL CmdExecuteCommands(VkCommandBuffer commandBuffer, uint32_t count,
                                              const VkCommandBuffer* secondaries) {
  Recorder recorder(commandBuffer);
  if (recorder.next() == nullptr) return;
  recorder.BeforeOp();
  recorder.next()->CmdExecuteCommands(commandBuffer, count, secondaries);
  recorder.ExecuteSecondaries(count, secondaries);
}

// --- what synchronises ---

#define BARRIER(name, parameters, arguments)                                                \
  VKAPI_ATTR void VKAPI_CALL name(VkCommandBuffer commandBuffer SMELTR_UNWRAP parameters) { \
    Recorder recorder(commandBuffer);                                                       \
    if (recorder.next() == nullptr || recorder.next()->name == nullptr) return;             \
    recorder.BeforeBarrier();                                                               \
    recorder.next()->name(commandBuffer SMELTR_UNWRAP arguments);                           \
  }

BARRIER(CmdPipelineBarrier,
        (VkPipelineStageFlags sources, VkPipelineStageFlags destinations, VkDependencyFlags flags,
         uint32_t memoryCount, const VkMemoryBarrier* memory, uint32_t bufferCount,
         const VkBufferMemoryBarrier* buffers, uint32_t imageCount, const VkImageMemoryBarrier* images),
        (sources, destinations, flags, memoryCount, memory, bufferCount, buffers, imageCount, images))
BARRIER(CmdPipelineBarrier2, (const VkDependencyInfo* info), (info))
BARRIER(CmdWaitEvents,
        (uint32_t eventCount, const VkEvent* events, VkPipelineStageFlags sources,
         VkPipelineStageFlags destinations, uint32_t memoryCount, const VkMemoryBarrier* memory,
         uint32_t bufferCount, const VkBufferMemoryBarrier* buffers, uint32_t imageCount,
         const VkImageMemoryBarrier* images),
        (eventCount, events, sources, destinations, memoryCount, memory, bufferCount, buffers, imageCount,
         images))
BARRIER(CmdWaitEvents2, (uint32_t eventCount, const VkEvent* events, const VkDependencyInfo* infos),
        (eventCount, events, infos))

// --- render passes: no timestamp inside one ---

#define RENDER_PASS_BEGIN(name, parameters, arguments)                                      \
  VKAPI_ATTR void VKAPI_CALL name(VkCommandBuffer commandBuffer SMELTR_UNWRAP parameters) { \
    Recorder recorder(commandBuffer);                                                       \
    if (recorder.next() == nullptr || recorder.next()->name == nullptr) return;             \
    recorder.BeforeRenderPass();                                                            \
    recorder.next()->name(commandBuffer SMELTR_UNWRAP arguments);                           \
  }
#define RENDER_PASS_END(name, parameters, arguments)                                        \
  VKAPI_ATTR void VKAPI_CALL name(VkCommandBuffer commandBuffer SMELTR_UNWRAP parameters) { \
    Recorder recorder(commandBuffer);                                                       \
    if (recorder.next() == nullptr || recorder.next()->name == nullptr) return;             \
    recorder.next()->name(commandBuffer SMELTR_UNWRAP arguments);                           \
    recorder.AfterRenderPass();                                                             \
  }

RENDER_PASS_BEGIN(CmdBeginRenderPass, (const VkRenderPassBeginInfo* info, VkSubpassContents contents),
                  (info, contents))
RENDER_PASS_BEGIN(CmdBeginRenderPass2, (const VkRenderPassBeginInfo* info, const VkSubpassBeginInfo* subpass),
                  (info, subpass))
VKAPI_ATTR void VKAPI_CALL CmdBeginRendering(VkCommandBuffer commandBuffer, const VkRenderingInfo* info) {
  Recorder recorder(commandBuffer);
  if (recorder.next() == nullptr || recorder.next()->CmdBeginRendering == nullptr) return;
  recorder.BeforeRenderPass((info->flags & VK_RENDERING_RESUMING_BIT) != 0,
                            (info->flags & VK_RENDERING_SUSPENDING_BIT) != 0);
  recorder.next()->CmdBeginRendering(commandBuffer, info);
}

RENDER_PASS_END(CmdEndRenderPass, (), ())
RENDER_PASS_END(CmdEndRenderPass2, (const VkSubpassEndInfo* info), (info))
RENDER_PASS_END(CmdEndRendering, (), ())

#undef BARRIER
#undef RENDER_PASS_BEGIN
#undef RENDER_PASS_END
#undef SMELTR_UNWRAP

}  // namespace smeltr::hook::vulkan
