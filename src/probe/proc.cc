#include "probe/proc.h"

#include <algorithm>
#include <array>

namespace smeltr::probe {
namespace {

struct Helper {
  std::string_view name;
  double from_pct = 0;
  bool is_prefix = false;
};

constexpr double kBusyPct = 5;
constexpr std::array kHelpers = {
    // macOS
    Helper{.name = "ReportCrash", .from_pct = kBusyPct},
    Helper{.name = "diagnosticservicesd", .from_pct = kBusyPct},
    Helper{.name = "UserNotificationCenter", .from_pct = kBusyPct},
    Helper{.name = "spindump", .from_pct = kBusyPct},
    // Linux
    Helper{.name = "systemd-coredump"}, Helper{.name = "apport"}, Helper{.name = "abrt-", .is_prefix = true},
    Helper{.name = "gdb"}, Helper{.name = "nvidia-bug-report"},
    Helper{.name = "kswapd", .from_pct = kBusyPct, .is_prefix = true},
    Helper{.name = "kcompactd", .from_pct = kBusyPct, .is_prefix = true},
    Helper{.name = "nv-hostengine", .from_pct = kBusyPct}, Helper{.name = "rsyslogd", .from_pct = kBusyPct},
    Helper{.name = "systemd-journald", .from_pct = kBusyPct}};
// Longer names are cut at that by Linux, and at one character more by macOS.
constexpr size_t kKernelNameLength = 15;

bool Matches(const Helper& helper, std::string_view name) {
  if (helper.is_prefix) return name.starts_with(helper.name);
  return name == helper.name || (name.size() >= kKernelNameLength && helper.name.starts_with(name));
}

}  // namespace

bool IsFlaggedHelper(std::string_view name, double cpu_pct) {
  return std::ranges::any_of(
      kHelpers, [&](const Helper& helper) { return cpu_pct >= helper.from_pct && Matches(helper, name); });
}

}  // namespace smeltr::probe
