// A LaunchAgent. Declared in service.h.
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <vector>

#include "launch/run_tool.h"
#include "launch/service.h"
#include "util/file.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::launch {
namespace {

constexpr int kToolLimitMs = 20'000;
constexpr size_t kMaxFileBytes = 64 << 10;

std::string Domain() { return fmt::format("gui/{}", ::getuid()); }
std::string Target() { return fmt::format("{}/{}", Domain(), kLaunchAgentLabel); }

bool Launchctl(std::vector<std::string> arguments, std::string* said = nullptr) {
  arguments.insert(arguments.begin(), "launchctl");
  const auto result = RunTool(arguments, kToolLimitMs);
  if (said != nullptr) {
    *said = result.has_value() ? Printable(Truncate(result->output.substr(0, result->output.find('\n')), 200))
                               : std::string(result.error().text());
  }
  return result.has_value() && result->status == 0;
}

// Over ssh there is no graphical domain to bootstrap into; `load` finds the one there is.
Result<void> Load(const std::filesystem::path& file) {
  std::string said;
  if (Launchctl({"bootstrap", Domain(), file.native()})) return {};
  if (Launchctl({"load", "-w", file.native()}, &said)) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("launchctl cannot load {}: {}", file.native(), said));
}

// False when it was not loaded.
bool Unload(const std::filesystem::path& file) {
  return Launchctl({"bootout", Target()}) || Launchctl({"unload", "-w", file.native()});
}

}  // namespace

std::string_view ServiceManagerName() { return "launchd"; }

Result<std::filesystem::path> ServiceFile() {
  const auto home = Environment("HOME");
  if (!home.has_value()) return Fail(ErrorCode::kNotFound, "no home directory: set HOME");
  return std::filesystem::path(*home) / "Library" / "LaunchAgents" /
         fmt::format("{}.plist", kLaunchAgentLabel);
}

Result<void> CheckServiceManager() { return {}; }

bool IsInstalledFor(const std::filesystem::path& home) {
  const auto file = ServiceFile();
  if (!file.has_value()) return false;
  const auto text = ReadFile(*file, kMaxFileBytes);
  return text.has_value() && ServesHome(*text, home);
}

Result<void> InstallService(const ServicePlan& plan) {
  SMELTR_ASSIGN_OR_RETURN(const std::string plist, LaunchAgent(plan));
  SMELTR_ASSIGN_OR_RETURN(const std::filesystem::path file, ServiceFile());
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return std::unexpected(SystemError("create", file.parent_path(), error.value()));
  // A loaded agent refuses to be loaded again, and would go on with the old file.
  Unload(file);
  SMELTR_TRY(WriteFileAtomically(file, plist, 0644, FileSync::kDisk));
  return Load(file);
}

Result<void> UninstallService() {
  SMELTR_ASSIGN_OR_RETURN(const std::filesystem::path file, ServiceFile());
  Unload(file);
  if (::unlink(file.c_str()) == 0) return {};
  if (errno == ENOENT) return Fail(ErrorCode::kNotFound, fmt::format("{} does not exist", file.native()));
  return std::unexpected(SystemError("remove", file, errno));
}

Result<void> StartService() {
  std::string said;
  if (Launchctl({"kickstart", Target()}, &said)) return {};
  SMELTR_ASSIGN_OR_RETURN(const std::filesystem::path file, ServiceFile());
  return Load(file);
}

Result<void> StopService() {
  std::string said;
  if (Launchctl({"kill", "TERM", Target()}, &said)) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("launchctl cannot stop {}: {}", kLaunchAgentLabel, said));
}

std::string ServiceAdvice() { return {}; }

}  // namespace smeltr::launch
