// systemd user units. Declared in service.h.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
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

// The first line of what a tool said, for an error.
std::string FirstLine(const std::string& output) {
  return Printable(Truncate(output.substr(0, output.find('\n')), 200));
}

Result<ToolResult> Systemctl(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"systemctl", "--user"});
  return RunTool(arguments, kToolLimitMs);
}

// The same, but a status other than 0 is an error.
Result<void> MustSystemctl(const std::vector<std::string>& arguments) {
  SMELTR_ASSIGN_OR_RETURN(const ToolResult result, Systemctl(arguments));
  if (result.status == 0) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("`systemctl --user {}` failed: {}",
                                                   fmt::join(arguments, " "), FirstLine(result.output)));
}

std::string UnitName() { return std::string(kSystemdUnitName); }

}  // namespace

std::string_view ServiceManagerName() { return "systemd"; }

Result<std::filesystem::path> ServiceFile() {
  std::filesystem::path base;
  if (const auto config = Environment("XDG_CONFIG_HOME")) {
    base = *config;
  } else if (const auto home = Environment("HOME")) {
    base = std::filesystem::path(*home) / ".config";
  }
  // The specification of XDG_CONFIG_HOME wants relative ones ignored; there is nothing to fall back to.
  if (!base.is_absolute()) return Fail(ErrorCode::kNotFound, "no home directory: set HOME");
  return base / "systemd" / "user" / kSystemdUnitName;
}

Result<void> CheckServiceManager() {
  const auto result = Systemctl({"show-environment"});
  if (!result.has_value()) {
    return Fail(ErrorCode::kUnsupported, fmt::format("no systemd user manager: {}", result.error().text()));
  }
  if (result->status == 0) return {};
  return Fail(ErrorCode::kUnsupported, fmt::format("no systemd user manager: {}", FirstLine(result->output)));
}

bool IsInstalledFor(const std::filesystem::path& home) {
  const auto file = ServiceFile();
  if (!file.has_value()) return false;
  const auto text = ReadFile(*file, kMaxFileBytes);
  return text.has_value() && ServesHome(*text, home);
}

Result<void> InstallService(const ServicePlan& plan) {
  SMELTR_TRY(CheckServiceManager());
  SMELTR_ASSIGN_OR_RETURN(const std::string unit, SystemdUnit(plan));
  SMELTR_ASSIGN_OR_RETURN(const std::filesystem::path file, ServiceFile());
  std::error_code error;
  std::filesystem::create_directories(file.parent_path(), error);
  if (error) return std::unexpected(SystemError("create", file.parent_path(), error.value()));
  SMELTR_TRY(WriteFileAtomically(file, unit, 0644, FileSync::kDisk));
  SMELTR_TRY(MustSystemctl({"daemon-reload"}));
  SMELTR_TRY(MustSystemctl({"enable", UnitName()}));
  // Not `enable --now`: one that runs already, of an older unit, would go on as it is.
  return MustSystemctl({"restart", UnitName()});
}

Result<void> UninstallService() {
  SMELTR_ASSIGN_OR_RETURN(const std::filesystem::path file, ServiceFile());
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} does not exist", file.native()));
  }
  // Without a manager there is nothing to stop, but the file still goes.
  if (CheckServiceManager().has_value()) SMELTR_TRY(MustSystemctl({"disable", "--now", UnitName()}));
  if (::unlink(file.c_str()) != 0) return std::unexpected(SystemError("remove", file, errno));
  if (CheckServiceManager().has_value()) SMELTR_TRY(MustSystemctl({"daemon-reload"}));
  return {};
}

Result<void> StartService() { return MustSystemctl({"start", UnitName()}); }
Result<void> StopService() { return MustSystemctl({"stop", UnitName()}); }

std::string ServiceAdvice() {
  return "It ends with your last login; `loginctl enable-linger` keeps it running without one.";
}

}  // namespace smeltr::launch
