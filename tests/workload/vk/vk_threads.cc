// vk_threads [devices] [threads each] [times]: every thread submits to its own queue, with its own
// pool, at once; every device is of its own. Prints how many command buffers it submitted.

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "vk/vk_program.h"

namespace {

using vk_program::Check;
using vk_program::Program;

uint32_t Argument(int argc, char** argv, int index, uint32_t fallback) {
  return argc > index ? static_cast<uint32_t>(std::atoi(argv[index])) : fallback;
}

// Devices with one queue only are shared by their threads, one at a time, as the interface demands.
void Work(const Program& program, std::mutex& queue_mutex, uint32_t times, std::atomic<uint32_t>& submitted) {
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  VkFenceCreateInfo fence_info{};
  fence_info.sType = VK_STRUCTURE_TYPE_FENCE_CREATE_INFO;
  VkFence fence = VK_NULL_HANDLE;
  Check(vkCreateFence(program.device, &fence_info, nullptr, &fence), "vkCreateFence");
  for (uint32_t i = 0; i < times; ++i) {
    VkCommandPool pool = VK_NULL_HANDLE;
    Check(vkCreateCommandPool(program.device, &pool_info, nullptr, &pool), "vkCreateCommandPool");
    VkCommandBufferAllocateInfo info{};
    info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
    info.commandPool = pool;
    info.commandBufferCount = 1;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    Check(vkAllocateCommandBuffers(program.device, &info, &commands), "vkAllocateCommandBuffers");
    Program::Begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
    program.Dispatch(commands, i % 2, 8, 20);
    Program::End(commands);
    {
      const std::lock_guard lock(queue_mutex);
      program.Submit(commands, fence);
    }
    submitted.fetch_add(1);
    Check(vkWaitForFences(program.device, 1, &fence, VK_TRUE, UINT64_MAX), "vkWaitForFences");
    Check(vkResetFences(program.device, 1, &fence), "vkResetFences");
    vkDestroyCommandPool(program.device, pool, nullptr);
  }
  vkDestroyFence(program.device, fence, nullptr);
}

}  // namespace

int main(int argc, char** argv) {
  const uint32_t devices = Argument(argc, argv, 1, 2);
  const uint32_t threads_each = Argument(argc, argv, 2, 2);
  const uint32_t times = Argument(argc, argv, 3, 50);
  std::atomic<uint32_t> submitted{0};
  std::vector<std::thread> owners;
  for (uint32_t i = 0; i < devices; ++i) {
    // Instance and device are made and destroyed on threads of their own, all at once.
    owners.emplace_back([&] {
      Program program;
      std::mutex queue_mutex;
      std::vector<std::thread> workers;
      for (uint32_t j = 0; j < threads_each; ++j) {
        workers.emplace_back([&] { Work(program, queue_mutex, times, submitted); });
      }
      for (std::thread& worker : workers) worker.join();
      program.Destroy();
    });
  }
  for (std::thread& owner : owners) owner.join();
  std::printf("%u\n", submitted.load());
  return 0;
}
