// Whether recording would work here, and what would make it better: one line a question.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "util/paths.h"

namespace smeltr::faces::doctor {

enum class Verdict : uint8_t {
  kOk,
  kDegraded,  // Recording works, something is missing from it.
  kFailed,
};
// "ok", "degraded", "failed".
std::string_view Name(Verdict verdict);

struct Check {
  std::string name{};
  Verdict verdict = Verdict::kOk;
  std::string detail{};  // What was found.
  std::string fix{};     // What to do; empty where nothing needs to be, or can be, done.
  bool vital = false;    // Failed, `smeltr record` does not do its job.
};

struct Context {
  Paths paths;
  std::string version;  // Of this program.
  std::string program;  // Its path: the test child.
};

// In the order in which they are shown. Each only looks, but for the test recording, which starts a daemon
// and deletes its session again.
std::vector<Check> CheckHome(const Context& context);    // Home, socket, config.toml, leftovers.
std::vector<Check> CheckDaemon(const Context& context);  // smeltrd itself.
std::vector<Check> CheckGpu(const Context& context);     // Vulkan with the hook in it, CUDA.
std::vector<Check> CheckSystem();                        // What the kernel offers and permits.
std::vector<Check> CheckProbes();

std::vector<Check> CheckAll(const Context& context);
bool CanRecord(const std::vector<Check>& checks);
std::string ToJson(const std::vector<Check>& checks);

// How the names of test recordings begin: what shows recordings as they happen leaves them out.
inline constexpr std::string_view kTestRecordingName = "doctor test of process ";

// In the test child: makes a Vulkan instance and prints a line "device <name>" for each device. Returns the
// exit status: 0, kNoLoader, kNoInstance.
int RunTestChild();
inline constexpr int kNoLoader = 10;
inline constexpr int kNoInstance = 11;

}  // namespace smeltr::faces::doctor
