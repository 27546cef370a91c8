// Whether the hook gets into a program that uses the GPU, by doing it. Declared in check.h.
#include <dlfcn.h>
#include <fmt/format.h>
#include <unistd.h>
#include <vulkan/vulkan.h>

#include <cstdio>
#include <vector>

#include "faces/doctor/check.h"
#include "launch/run_tool.h"
#include "session/retention.h"
#include "session/store.h"
#include "util/format.h"

namespace smeltr::faces::doctor {
namespace {

constexpr int kRecordingLimitMs = 60'000;
constexpr uint32_t kMaxDevices = 16;

// "llvmpipe, NVIDIA H200" of lines "device <name>".
std::string DeviceNames(std::string_view output) {
  constexpr std::string_view kWord = "device ";
  std::string names;
  while (!output.empty()) {
    const std::string_view line = output.substr(0, output.find('\n'));
    if (line.starts_with(kWord)) names += (names.empty() ? "" : ", ") + Printable(line.substr(kWord.size()));
    output.remove_prefix(std::min(line.size() + 1, output.size()));
  }
  return names;
}

// Records the test child; its session says whether the hook was in it and its ring was read.
Check TestRecording(const Context& context, std::string_view name) {
  Check check{.name = "test recording", .verdict = Verdict::kFailed, .vital = true};
  const auto result = launch::RunTool({context.program, "record", "--quiet", "--require", "--name",
                                       std::string(name), "--", context.program, "doctor", "--child"},
                                      kRecordingLimitMs);
  if (!result.has_value()) {
    check.detail = result.error().text();
    return check;
  }
  const auto stored = session::Resolve(context.paths.sessions, name);
  if (!stored.has_value()) {
    check.detail = Printable(Truncate(result->output, 300));
    check.fix = "`smeltr daemon logs` may say why";
    return check;
  }
  const session::Metadata& metadata = stored->metadata;
  const auto hello = metadata.event_counts.find("HookHello");
  if (metadata.hook_state == "injected" && hello != metadata.event_counts.end()) {
    check.verdict = Verdict::kOk;
    check.detail = "the hook was loaded and its events arrived";
  } else {
    check.detail = fmt::format("the hook was not loaded: {}, {}", Printable(metadata.hook_state),
                               Printable(metadata.hook_reason));
    check.fix = "unset SMELTR_HOOK_DISABLE and VK_LOADER_LAYERS_DISABLE; update the Vulkan loader";
  }
  const auto removed =
      session::RemoveSession(context.paths.sessions, stored->directory.filename().native(), true);
  if (!removed.has_value()) check.detail += fmt::format("; {}", removed.error().text());
  return check;
}

Check Vulkan(const Context& context) {
  Check check{.name = "vulkan", .verdict = Verdict::kFailed, .vital = true};
  const auto result = launch::RunTool({context.program, "doctor", "--child"}, kRecordingLimitMs);
  if (!result.has_value()) {
    check.detail = result.error().text();
    return check;
  }
  const std::string devices = DeviceNames(result->output);
  if (result->status == kNoLoader) {
    check.detail = "no Vulkan loader (libvulkan.so.1)";
    check.fix = "install libvulkan1, or the package of your system with the Vulkan loader";
  } else if (result->status == kNoInstance || devices.empty()) {
    check.detail = "the Vulkan loader finds no driver";
    check.fix = "install the Vulkan driver of your GPU, or mesa-vulkan-drivers";
  } else if (result->status != 0) {
    check.detail = fmt::format("a program that uses Vulkan ended with {}", result->status);
  } else {
    check.verdict = Verdict::kOk;
    check.detail = devices;
  }
  return check;
}

bool Loads(const char* library) {
  void* const handle = ::dlopen(library, RTLD_LAZY | RTLD_LOCAL);
  if (handle != nullptr) ::dlclose(handle);
  return handle != nullptr;
}

Check Cuda() {
  Check check{.name = "cuda"};
  if (!Loads("libcuda.so.1")) {
    check.detail = "no CUDA driver here";
    return check;
  }
  const bool cupti = Loads("libcupti.so") || Loads("libcupti.so.12") || Loads("libcupti.so.13");
  check.verdict = Verdict::kDegraded;
  check.detail =
      fmt::format("a CUDA driver, {} CUPTI; this smeltr records Vulkan only", cupti ? "with" : "without");
  return check;
}

}  // namespace

std::vector<Check> CheckGpu(const Context& context) {
  std::vector<Check> checks{Vulkan(context)};
  // Without a driver there is nothing for the hook to get into.
  if (checks.front().verdict == Verdict::kOk) {
    checks.push_back(TestRecording(context, fmt::format("{}{}", kTestRecordingName, ::getpid())));
  }
  checks.push_back(Cuda());
  return checks;
}

int RunTestChild() {
  // Left open: drivers have threads that outlive the last instance.
  void* const loader = ::dlopen("libvulkan.so.1", RTLD_NOW | RTLD_LOCAL);
  if (loader == nullptr) return kNoLoader;
  const auto get = reinterpret_cast<PFN_vkGetInstanceProcAddr>(::dlsym(loader, "vkGetInstanceProcAddr"));
  if (get == nullptr) return kNoLoader;
  const auto create = reinterpret_cast<PFN_vkCreateInstance>(get(nullptr, "vkCreateInstance"));
  VkInstanceCreateInfo info{};
  info.sType = VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO;
  VkInstance instance = nullptr;
  if (create == nullptr || create(&info, nullptr, &instance) != VK_SUCCESS) return kNoInstance;
  const auto enumerate =
      reinterpret_cast<PFN_vkEnumeratePhysicalDevices>(get(instance, "vkEnumeratePhysicalDevices"));
  const auto properties_of =
      reinterpret_cast<PFN_vkGetPhysicalDeviceProperties>(get(instance, "vkGetPhysicalDeviceProperties"));
  uint32_t count = kMaxDevices;
  std::vector<VkPhysicalDevice> devices(count);
  const VkResult enumerated = enumerate(instance, &count, devices.data());
  if (enumerated != VK_SUCCESS && enumerated != VK_INCOMPLETE) count = 0;
  for (uint32_t i = 0; i < count; ++i) {
    VkPhysicalDeviceProperties properties{};
    properties_of(devices[i], &properties);
    std::printf("device %s\n", properties.deviceName);
  }
  const auto destroy = reinterpret_cast<PFN_vkDestroyInstance>(get(instance, "vkDestroyInstance"));
  destroy(instance, nullptr);
  return 0;
}

}  // namespace smeltr::faces::doctor
