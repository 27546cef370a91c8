// What the kernel offers and permits. Declared in check.h.
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <optional>

#include "base/clock.h"
#include "base/fd.h"
#include "faces/doctor/check.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::faces::doctor {
namespace {

constexpr size_t kMaxLineBytes = 4096;
// Before this instant (2024) a clock was never set.
constexpr uint64_t kPlausibleUnixNs = uint64_t{1'704'067'200} * kNsPerSecond;

// The first line of a small system file.
std::optional<std::string> FirstLine(const char* path) {
  auto text = ReadFile(path, kMaxLineBytes);
  if (!text.has_value()) return std::nullopt;
  return text->substr(0, text->find('\n'));
}

Check Clock() {
  Check check{.name = "clock"};
  const std::string source =
      FirstLine("/sys/devices/system/clocksource/clocksource0/current_clocksource").value_or("unknown");
  check.detail = fmt::format("{}, up {}", Printable(source), FormatDuration(MonotonicNowNs()));
  if (WallNowNs() < kPlausibleUnixNs) {
    check.verdict = Verdict::kDegraded;
    check.detail += "; the date is wrong";
    check.fix = "set the clock, or retention takes sessions for older than they are";
  } else if (source == "hpet" || source == "acpi_pm" || source == "jiffies") {
    check.verdict = Verdict::kDegraded;
    check.detail += "; reading it takes long, so recording costs more";
    check.fix = "boot with clocksource=tsc if the machine's TSC is stable";
  }
  return check;
}

Check Pressure() {
  Check check{.name = "pressure (PSI)"};
  if (FirstLine("/proc/pressure/memory").has_value()) {
    check.detail = "/proc/pressure can be read";
    return check;
  }
  check.verdict = Verdict::kDegraded;
  check.detail = "/proc/pressure is not there: no PressureSample events";
  check.fix = "boot with psi=1 (kernel 4.20 or later)";
  return check;
}

Check Cgroup() {
  Check check{.name = "cgroup v2"};
  const auto controllers = FirstLine("/sys/fs/cgroup/cgroup.controllers");
  if (!controllers.has_value()) {
    check.verdict = Verdict::kDegraded;
    check.detail = "not mounted at /sys/fs/cgroup: no CgroupMemory events";
    check.fix = "boot with systemd.unified_cgroup_hierarchy=1";
  } else if (controllers->find("memory") == std::string::npos) {
    check.verdict = Verdict::kDegraded;
    check.detail = "without the memory controller: no CgroupMemory events";
  } else {
    check.detail = "with the memory controller";
  }
  return check;
}

Check KernelLog() {
  Check check{.name = "kernel log"};
  const Fd fd(::open("/dev/kmsg", O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::array<char, 8192> record{};
  const ssize_t count = fd.valid() ? ::read(fd.get(), record.data(), record.size()) : -1;
  // EAGAIN: nothing there; EPIPE: overwritten meanwhile. Both mean that it may be read.
  if (count >= 0 || (fd.valid() && (errno == EAGAIN || errno == EPIPE))) {
    check.detail = "/dev/kmsg can be read";
    return check;
  }
  const int reason = errno;
  check.verdict = Verdict::kDegraded;
  check.detail = fmt::format("/dev/kmsg: {}: GPU faults and OOM kills may go unseen", ::strerror(reason));
  check.fix = "sysctl kernel.dmesg_restrict=0, or join the group systemd-journal or adm";
  return check;
}

Check CorePattern() {
  Check check{.name = "core dumps"};
  const std::string pattern = FirstLine("/proc/sys/kernel/core_pattern").value_or("");
  check.detail =
      pattern.empty() ? "core_pattern is empty: no core files" : "core_pattern " + Printable(pattern);
  const bool known = pattern.find("systemd-coredump") != std::string::npos ||
                     pattern.find("apport") != std::string::npos || pattern.find("abrt") != std::string::npos;
  if (pattern.starts_with("|") && !known) {
    check.verdict = Verdict::kDegraded;
    check.detail += ": a program smeltr does not know takes them";
    check.fix = "crashes are still seen by how the program ended";
  }
  return check;
}

Check PtraceScope() {
  Check check{.name = "ptrace scope"};
  const std::string scope = FirstLine("/proc/sys/kernel/yama/ptrace_scope").value_or("none");
  check.detail =
      scope == "none" ? "no Yama: unrestricted" : scope + "; smeltr never traces, debuggers may mind";
  return check;
}

Check Root() {
  Check check{.name = "rights"};
  if (::geteuid() == 0) {
    check.detail = "root: everything may be read";
    return check;
  }
  check.detail =
      "no root, and none is needed; root would add other users' processes to ProcTop, their core "
      "files, and the kernel log where it is restricted";
  return check;
}

}  // namespace

std::vector<Check> CheckSystem() {
  return {Clock(), Pressure(), Cgroup(), KernelLog(), CorePattern(), PtraceScope(), Root()};
}

}  // namespace smeltr::faces::doctor
