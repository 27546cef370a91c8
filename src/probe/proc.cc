#include "probe/proc.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "probe/emit.h"

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

constexpr size_t kTopCount = 10;

class ProcProbe : public Probe {
 public:
  explicit ProcProbe(const Roots& roots) : proc_root_(roots.proc) {}

  std::string_view name() const override { return "proc"; }
  uint64_t period_ns() const override { return 5 * kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    std::vector<ProcessEntry> processes = ListProcesses(proc_root_);
    if (processes.empty()) return {Health::kFailed, "cannot list the processes in " + proc_root_};
    std::ranges::sort(processes, {}, &ProcessEntry::pid);
    std::string hidden = HiddenProcesses(processes);
    if (!before_.empty() && context.now_ns > before_ns_) Tell(processes, context.now_ns, sink);
    before_.clear();
    for (const ProcessEntry& process : processes) {
      before_.push_back({process.pid, process.start_time_ticks, process.cpu_ticks});
    }
    before_ns_ = context.now_ns;
    if (!hidden.empty()) return {Health::kDegraded, std::move(hidden)};
    return {};
  }

 private:
  struct Seen {
    uint32_t pid = 0;
    uint64_t start_time_ticks = 0;
    uint64_t cpu_ticks = 0;
  };
  struct Busy {
    const ProcessEntry* process = nullptr;
    double cpu_pct = 0;
  };

  // Ticks since the reading before. All of them for one that was not there yet.
  uint64_t TicksSince(const ProcessEntry& process) const {
    const auto at = std::ranges::lower_bound(before_, process.pid, {}, &Seen::pid);
    if (at == before_.end() || at->pid != process.pid || at->start_time_ticks != process.start_time_ticks) {
      return process.cpu_ticks;
    }
    return process.cpu_ticks - std::min(process.cpu_ticks, at->cpu_ticks);
  }

  void Tell(const std::vector<ProcessEntry>& processes, uint64_t now_ns, Sink& sink) {
    const double seconds = static_cast<double>(now_ns - before_ns_) / 1e9;
    std::vector<Busy> busy;
    std::vector<event::Text> flagged;
    for (const ProcessEntry& process : processes) {
      const uint64_t ticks = TicksSince(process);
      const double cpu_pct = 100.0 * static_cast<double>(ticks) / ticks_per_second_ / seconds;
      if (ticks > 0) busy.push_back({&process, cpu_pct});
      if (IsFlaggedHelper(process.name, cpu_pct)) flagged.emplace_back(std::string_view(process.name));
    }
    const size_t count = std::min(busy.size(), kTopCount);
    std::ranges::partial_sort(busy, busy.begin() + static_cast<std::ptrdiff_t>(count), std::greater{},
                              &Busy::cpu_pct);
    busy.resize(count);
    std::vector<std::string> names;
    names.reserve(count);
    std::vector<event::TopProcess> top;
    for (const Busy& one : busy) {
      names.push_back(FullProcessName(proc_root_, *one.process));
      top.push_back(
          {.pid = one.process->pid, .name = std::string_view(names.back()), .cpu_pct = one.cpu_pct});
    }
    sink.Emit(MakeEvent(now_ns, 0, event::ProcTop{.top = top, .flagged = flagged}));
  }

  std::string proc_root_;
  std::vector<Seen> before_;  // By pid.
  uint64_t before_ns_ = 0;
  double ticks_per_second_ = static_cast<double>(::sysconf(_SC_CLK_TCK));
};

}  // namespace

std::unique_ptr<Probe> MakeProcProbe(const Roots& roots) { return std::make_unique<ProcProbe>(roots); }

bool IsFlaggedHelper(std::string_view name, double cpu_pct) {
  return std::ranges::any_of(
      kHelpers, [&](const Helper& helper) { return cpu_pct >= helper.from_pct && Matches(helper, name); });
}

}  // namespace smeltr::probe
