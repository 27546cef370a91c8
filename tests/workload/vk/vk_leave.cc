// vk_leave <how>: submits work and leaves without destroying anything, some of it still in flight:
//   return, exit, _exit, abort, kill, throw   the way it ends
//   waited                                    ends at once when the work is done, by _exit
//   wait                                      returns after the work is done, but with everything still there
//   fork                                      forks in a loop while another thread submits; children end at
//   once fork_own                                  a child makes an instance and device of its own and
//   submits, too close                                     closes the Vulkan loader with the device still
//   there

#include <dlfcn.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <stdexcept>
#include <string_view>
#include <thread>

#include "vk/vk_program.h"

namespace {

using vk_program::Check;
using vk_program::Program;

VkCommandBuffer Record(const Program& program, uint32_t rounds) {
  VkCommandBuffer commands = program.Allocate();
  Program::Begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
  program.Dispatch(commands, 0, 64, rounds);
  Program::End(commands);
  return commands;
}

// Every fifth child records commands before it ends, as an unwary program does. Nothing that waits: the
// driver's own locks may be held by threads the child does not have.
int ForkLoop(const Program& program) {
  std::atomic<bool> stop{false};
  VkCommandPoolCreateInfo pool_info{};
  pool_info.sType = VK_STRUCTURE_TYPE_COMMAND_POOL_CREATE_INFO;
  VkCommandBufferAllocateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO;
  info.commandBufferCount = 1;
  Check(vkCreateCommandPool(program.device, &pool_info, nullptr, &info.commandPool), "vkCreateCommandPool");
  VkCommandBuffer of_children = VK_NULL_HANDLE;
  Check(vkAllocateCommandBuffers(program.device, &info, &of_children), "vkAllocateCommandBuffers");
  std::thread submitter([&] {
    VkCommandBuffer commands = program.Allocate();
    while (!stop.load()) {
      Program::Begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
      program.Dispatch(commands, 0, 64, 10);
      Program::End(commands);
      program.SubmitAndWait(commands);
    }
  });
  int failures = 0;
  for (int i = 0; i < 50; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      if (i % 5 == 0) {
        Program::Begin(of_children, 0);
        program.Dispatch(of_children, 0, 1, 1);
        Program::End(of_children);
      }
      _exit(7);
    }
    int status = 0;
    waitpid(child, &status, 0);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) ++failures;
  }
  stop.store(true);
  submitter.join();
  return failures == 0 ? 0 : 1;
}

int ForkOwn(const Program& program) {
  program.SubmitAndWait(Record(program, 10));
  const pid_t child = fork();
  if (child == 0) {
    Program own;
    for (int i = 0; i < 5; ++i) own.SubmitAndWait(Record(own, 10));
    own.Destroy();
    std::exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  program.SubmitAndWait(Record(program, 10));
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view how = argc > 1 ? argv[1] : "return";
  auto& program = *new Program;
  if (how == "fork") return ForkLoop(program);
  if (how == "fork_own") return ForkOwn(program);
  for (int i = 0; i < 3; ++i) program.SubmitAndWait(Record(program, 100));
  if (how == "waited") _exit(0);
  if (how == "wait") return 0;
  if (how == "close") {
    vkDeviceWaitIdle(program.device);
    void* loader = dlopen("libvulkan.so.1", RTLD_NOW | RTLD_NOLOAD);
    if (loader != nullptr) dlclose(loader);
    return 0;
  }
  for (int i = 0; i < 3; ++i) program.Submit(Record(program, 20'000), VK_NULL_HANDLE);
  std::puts("left");
  std::fflush(stdout);
  if (how == "return") return 3;
  if (how == "exit") std::exit(4);
  if (how == "_exit") _exit(5);
  if (how == "abort") std::abort();
  if (how == "kill") kill(getpid(), SIGKILL);
  if (how == "throw") throw std::runtime_error("on purpose");
  return 2;
}
