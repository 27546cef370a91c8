// vk_loop <pattern> [times]: submits the same small piece of work many times, in the way the pattern says,
// and prints a checksum of what it computed.

#include <cstring>
#include <string_view>
#include <vector>

#include "vk/vk_program.h"

namespace {

using vk_program::Check;
using vk_program::Options;
using vk_program::Program;

constexpr VkCommandBufferUsageFlags kOnce = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT;
constexpr uint32_t kRounds = 200;

// Four dispatches: three of one pipeline, one four times as large of the other.
void RecordWork(const Program& program, VkCommandBuffer commands) {
  for (int i = 0; i < 3; ++i) program.Dispatch(commands, 0, 64, kRounds);
  program.Dispatch(commands, 1, 256, kRounds);
}

// Recorded afresh for every submission.
void Fresh(const Program& program, uint32_t times, VkCommandBufferUsageFlags flags) {
  VkCommandBuffer commands = program.Allocate();
  for (uint32_t i = 0; i < times; ++i) {
    Program::Begin(commands, flags);
    RecordWork(program, commands);
    Program::End(commands);
    program.SubmitAndWait(commands);
  }
}

// The pool is reset or replaced right after the work is done.
void PoolReset(const Program& program, uint32_t times) {
  VkCommandBuffer commands = program.Allocate();
  for (uint32_t i = 0; i < times; ++i) {
    Program::Begin(commands, kOnce);
    RecordWork(program, commands);
    Program::End(commands);
    program.SubmitAndWait(commands);
    if (i % 2 == 0) {
      Check(vkResetCommandPool(program.device, program.pool, 0), "vkResetCommandPool");
    } else {
      vkFreeCommandBuffers(program.device, program.pool, 1, &commands);
      commands = program.Allocate();
    }
  }
}

// Recorded once, submitted often, each after the one before.
void Reuse(const Program& program, uint32_t times) {
  VkCommandBuffer commands = program.Allocate();
  Program::Begin(commands, 0);
  RecordWork(program, commands);
  Program::End(commands);
  for (uint32_t i = 0; i < times; ++i) program.SubmitAndWait(commands);
}

// Two recordings in flight by turns.
void Pipelined(const Program& program, uint32_t times) {
  VkCommandBuffer commands[2];
  VkFence fences[2];
  VkFenceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  info.flags = VK_FENCE_CREATE_SIGNALED_BIT;
  for (int i = 0; i < 2; ++i) {
    commands[i] = program.Allocate();
    Program::Begin(commands[i], 0);
    RecordWork(program, commands[i]);
    Program::End(commands[i]);
    Check(vkCreateFence(program.device, &info, nullptr, &fences[i]), "vkCreateFence");
  }
  for (uint32_t i = 0; i < times; ++i) {
    Check(vkWaitForFences(program.device, 1, &fences[i % 2], VK_TRUE, UINT64_MAX), "vkWaitForFences");
    Check(vkResetFences(program.device, 1, &fences[i % 2]), "vkResetFences");
    program.Submit(commands[i % 2], fences[i % 2]);
  }
  vkDeviceWaitIdle(program.device);
  for (VkFence fence : fences) vkDestroyFence(program.device, fence, nullptr);
}

void Simultaneous(const Program& program, uint32_t times) {
  VkCommandBuffer commands = program.Allocate();
  Program::Begin(commands, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
  RecordWork(program, commands);
  Program::End(commands);
  for (uint32_t i = 0; i < times; ++i) program.Submit(commands, VK_NULL_HANDLE);
  vkDeviceWaitIdle(program.device);
}

// One secondary, executed twice by each primary.
void Secondary(const Program& program, uint32_t times) {
  VkCommandBuffer inner = program.Allocate(VK_COMMAND_BUFFER_LEVEL_SECONDARY);
  Program::Begin(inner, VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT);
  RecordWork(program, inner);
  Program::End(inner);
  VkCommandBuffer commands = program.Allocate();
  for (uint32_t i = 0; i < times; ++i) {
    Program::Begin(commands, kOnce);
    vkCmdExecuteCommands(commands, 1, &inner);
    Program::Barrier(commands);
    vkCmdExecuteCommands(commands, 1, &inner);
    Program::End(commands);
    program.SubmitAndWait(commands);
  }
}

// Queue label "frame", in it the command labels "first" and "second", the latter around "inner".
void Labels(const Program& program, uint32_t times) {
  const auto load = [&](const char* name) { return vkGetInstanceProcAddr(program.instance, name); };
  const auto queue_begin =
      reinterpret_cast<PFN_vkQueueBeginDebugUtilsLabelEXT>(load("vkQueueBeginDebugUtilsLabelEXT"));
  const auto queue_end =
      reinterpret_cast<PFN_vkQueueEndDebugUtilsLabelEXT>(load("vkQueueEndDebugUtilsLabelEXT"));
  const auto begin = reinterpret_cast<PFN_vkCmdBeginDebugUtilsLabelEXT>(load("vkCmdBeginDebugUtilsLabelEXT"));
  const auto end = reinterpret_cast<PFN_vkCmdEndDebugUtilsLabelEXT>(load("vkCmdEndDebugUtilsLabelEXT"));
  VkDebugUtilsLabelEXT label{};
  label.sType = VK_STRUCTURE_TYPE_DEBUG_UTILS_LABEL_EXT;
  program.Name(VK_OBJECT_TYPE_PIPELINE, reinterpret_cast<uint64_t>(program.pipelines[0]), "small_spin");
  program.Name(VK_OBJECT_TYPE_QUEUE, reinterpret_cast<uint64_t>(program.queues[0]), "main queue");
  VkCommandBuffer commands = program.Allocate();
  const auto labelled = [&](const char* name, uint32_t groups) {
    label.pLabelName = name;
    begin(commands, &label);
    program.Dispatch(commands, 0, groups, kRounds);
  };
  for (uint32_t i = 0; i < times; ++i) {
    label.pLabelName = "frame";
    queue_begin(program.queues[0], &label);
    Program::Begin(commands, kOnce);
    labelled("first", 1);
    end(commands);
    labelled("second", 2);
    labelled("inner", 3);
    end(commands);
    end(commands);
    program.Dispatch(commands, 1, 4, kRounds);
    Program::End(commands);
    program.SubmitAndWait(commands);
    queue_end(program.queues[0]);
  }
}

// No commands at all, then only transfers and an indirect dispatch.
void Others(const Program& program, uint32_t times) {
  VkCommandBuffer commands = program.Allocate();
  for (uint32_t i = 0; i < times; ++i) {
    Program::Begin(commands, kOnce);
    Program::End(commands);
    program.SubmitAndWait(commands);
    Program::Begin(commands, kOnce);
    const VkDispatchIndirectCommand groups{2, 1, 1};
    vkCmdFillBuffer(commands, program.buffer, 0, 1024, 7);
    Program::Barrier(commands);
    const VkBufferCopy copy{0, 2048, 1024};
    vkCmdCopyBuffer(commands, program.buffer, program.buffer, 1, &copy);
    vkCmdUpdateBuffer(commands, program.buffer, 8192, sizeof(groups), &groups);
    VkMemoryBarrier barrier{};
    barrier.sType = VK_STRUCTURE_TYPE_MEMORY_BARRIER;
    barrier.srcAccessMask = VK_ACCESS_TRANSFER_WRITE_BIT;
    barrier.dstAccessMask = VK_ACCESS_INDIRECT_COMMAND_READ_BIT;
    vkCmdPipelineBarrier(commands, VK_PIPELINE_STAGE_TRANSFER_BIT, VK_PIPELINE_STAGE_DRAW_INDIRECT_BIT, 0, 1,
                         &barrier, 0, nullptr, 0, nullptr);
    program.Dispatch(commands, 0, 1, 1);
    vkCmdDispatchIndirect(commands, program.buffer, 8192);
    Program::End(commands);
    program.SubmitAndWait(commands);
  }
}

// vkQueueSubmit2: two command buffers in one batch, one in another.
void Submit2(const Program& program, uint32_t times) {
  VkCommandBuffer commands[3];
  for (auto& each : commands) each = program.Allocate();
  for (uint32_t i = 0; i < times; ++i) {
    VkCommandBufferSubmitInfo buffers[3]{};
    for (int j = 0; j < 3; ++j) {
      Program::Begin(commands[j], kOnce);
      RecordWork(program, commands[j]);
      Program::End(commands[j]);
      buffers[j].sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_SUBMIT_INFO;
      buffers[j].commandBuffer = commands[j];
    }
    VkSubmitInfo2 batches[2]{};
    batches[0].sType = batches[1].sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    batches[0].commandBufferInfoCount = 2;
    batches[0].pCommandBufferInfos = buffers;
    batches[1].commandBufferInfoCount = 1;
    batches[1].pCommandBufferInfos = buffers + 2;
    Check(vkQueueSubmit2(program.queues[0], 2, batches, program.fence), "vkQueueSubmit2");
    Check(vkWaitForFences(program.device, 1, &program.fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    Check(vkResetFences(program.device, 1, &program.fence), "vkResetFences");
  }
}

// A long chain of dispatches in each command buffer, as an inference step has.
void Steps(const Program& program, uint32_t times) {
  VkCommandBuffer commands = program.Allocate();
  for (uint32_t i = 0; i < times; ++i) {
    Program::Begin(commands, kOnce);
    for (int j = 0; j < 50; ++j) RecordWork(program, commands);
    Program::End(commands);
    program.SubmitAndWait(commands);
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view pattern = argc > 1 ? argv[1] : "fresh";
  const auto times = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 20);
  VkPhysicalDeviceSynchronization2Features sync2{};
  sync2.sType = VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_SYNCHRONIZATION_2_FEATURES;
  sync2.synchronization2 = VK_TRUE;
  Options options;
  options.debug_utils = pattern == "labels";
  if (pattern == "submit2") {
    options.api_version = VK_API_VERSION_1_3;
    options.device_chain = &sync2;
  }
  if (pattern == "api10") options.api_version = VK_API_VERSION_1_0;
  Program program(options);
  if (pattern == "fresh" || pattern == "api10") {
    Fresh(program, times, kOnce);
  } else if (pattern == "rerecord") {
    Fresh(program, times, 0);
  } else if (pattern == "pool_reset") {
    PoolReset(program, times);
  } else if (pattern == "reuse") {
    Reuse(program, times);
  } else if (pattern == "pipelined") {
    Pipelined(program, times);
  } else if (pattern == "simultaneous") {
    Simultaneous(program, times);
  } else if (pattern == "secondary") {
    Secondary(program, times);
  } else if (pattern == "labels") {
    Labels(program, times);
  } else if (pattern == "others") {
    Others(program, times);
  } else if (pattern == "submit2") {
    Submit2(program, times);
  } else if (pattern == "steps") {
    Steps(program, times);
  } else {
    std::fprintf(stderr, "vk_loop: unknown pattern\n");
    return 2;
  }
  std::printf("%08x\n", program.Checksum());
  program.Destroy();
  return 0;
}
