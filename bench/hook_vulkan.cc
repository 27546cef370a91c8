// What the Vulkan layer costs: hook_vulkan [steps] [dispatches per step]
//
// One process, two instances of the same program: the loader puts the layer into one of them only. They take
// turns, so that whatever else the machine does meets both alike. Per step: record, submit, wait. Prints the
// medians and the median of the ratios of neighbouring steps.

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "vk/vk_program.h"

namespace {

using vk_program::Program;
using Clock = std::chrono::steady_clock;

constexpr uint32_t kRounds = 100;

double StepUs(const Program& program, VkCommandBuffer commands, uint32_t dispatches) {
  const Clock::time_point start = Clock::now();
  Program::Begin(commands, VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT);
  for (uint32_t i = 0; i < dispatches; ++i) program.Dispatch(commands, i % 2, 4, kRounds);
  Program::End(commands);
  program.SubmitAndWait(commands);
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

void Compare(const std::array<Program*, 2>& programs, uint32_t steps, uint32_t dispatches) {
  std::array<std::vector<double>, 2> times;
  std::vector<double> ratios;
  const std::array<VkCommandBuffer, 2> commands{programs[0]->Allocate(), programs[1]->Allocate()};
  for (uint32_t i = 0; i < steps + 5; ++i) {
    std::array<double, 2> step{};
    // Who goes first changes, too.
    for (const uint32_t which : {i % 2, 1 - i % 2})
      step[which] = StepUs(*programs[which], commands[which], dispatches);
    if (i < 5) continue;
    times[0].push_back(step[0]);
    times[1].push_back(step[1]);
    ratios.push_back(step[1] / step[0]);
  }
  std::printf("%4u dispatches: %9.1f us alone, %9.1f us recorded, ratio of medians %.3f, median ratio %.3f\n",
              dispatches, Median(times[0]), Median(times[1]), Median(times[1]) / Median(times[0]),
              Median(ratios));
}

}  // namespace

int main(int argc, char** argv) {
  const auto steps = static_cast<uint32_t>(argc > 1 ? std::atoi(argv[1]) : 400);
  const auto dispatches = static_cast<uint32_t>(argc > 2 ? std::atoi(argv[2]) : 200);
  const std::string rings = "/tmp/hook_vulkan_bench." + std::to_string(getpid());
  std::filesystem::create_directories(rings);
  setenv("XDG_DATA_DIRS", SMELTR_LAYER_SHARE ":/usr/local/share:/usr/share", 1);
  setenv("SMELTR_RING_DIR", rings.c_str(), 1);
  unsetenv("SMELTR_VULKAN_LAYER");
  Program alone;
  setenv("SMELTR_VULKAN_LAYER", "1", 1);
  Program recorded;
  if (std::filesystem::is_empty(rings)) {
    std::fputs("hook_vulkan: the loader did not take the layer\n", stderr);
    return 1;
  }
  const std::array<Program*, 2> programs{&alone, &recorded};
  Compare(programs, steps, dispatches);
  Compare(programs, steps, 1);
  Compare(programs, steps, 0);
  recorded.Destroy();
  alone.Destroy();
  std::filesystem::remove_all(rings);
  return 0;
}
