// Crash reports and core files as they appear: on Linux what core_pattern says, on macOS DiagnosticReports.
#pragma once

#include <memory>
#include <string>

#include "probe/probe.h"

namespace smeltr::probe {

std::unique_ptr<Probe> MakeCrashFilesProbe();

// Linux: where the collectors leave their reports. Tests have directories of their own.
struct CrashDirectories {
  std::string core_pattern = "/proc/sys/kernel/core_pattern";
  std::string core_uses_pid = "/proc/sys/kernel/core_uses_pid";
  std::string systemd = "/var/lib/systemd/coredump";
  std::string apport = "/var/crash";
  std::string abrt = "/var/spool/abrt";
};
std::unique_ptr<Probe> MakeCrashFilesProbe(CrashDirectories directories);

}  // namespace smeltr::probe
