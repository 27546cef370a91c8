// smeltrd as a service of the user's login: a systemd user unit, or a LaunchAgent on macOS. It serves one
// home; installing for another replaces it.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smeltr::launch {

struct ServicePlan {
  std::filesystem::path program;  // smeltrd; absolute, as are the others.
  std::filesystem::path home;
  std::filesystem::path socket;  // Empty: where home says.
  std::filesystem::path log;
};

// The files, on any system. kInvalidArgument for paths that they cannot hold (line breaks).
Result<std::string> SystemdUnit(const ServicePlan& plan);
Result<std::string> LaunchAgent(const ServicePlan& plan);
// Whether a file with this text, of either kind, is for this home.
bool ServesHome(std::string_view service_file, const std::filesystem::path& home);
inline constexpr std::string_view kSystemdUnitName = "smeltrd.service";
inline constexpr std::string_view kLaunchAgentLabel = "com.smeltr.daemon";

// Of this system:

// "systemd", "launchd".
std::string_view ServiceManagerName();
// Where the file is, or would be.
Result<std::filesystem::path> ServiceFile();
// kUnsupported, with the reason, when nobody would read the file: containers, WSL 1, sessions by su.
Result<void> CheckServiceManager();

// Whether one is installed that serves this home.
bool IsInstalledFor(const std::filesystem::path& home);

// Writes the file and has it started, now and with every login.
Result<void> InstallService(const ServicePlan& plan);
// Stops it and takes the file away. kNotFound when it is not installed.
Result<void> UninstallService();
Result<void> StartService();
Result<void> StopService();
// What else a user may want to know after installing; empty when nothing.
std::string ServiceAdvice();

}  // namespace smeltr::launch
