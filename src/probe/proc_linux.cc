#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "base/clock.h"
#include "probe/emit.h"
#include "probe/proc.h"
#include "probe/process_tree.h"

namespace smeltr::probe {
namespace {

constexpr size_t kTopCount = 10;
constexpr size_t kKernelNameLength = 15;

class ProcProbe : public Probe {
 public:
  explicit ProcProbe(const Roots& roots) : proc_root_(roots.proc) {}

  std::string_view name() const override { return "proc"; }
  uint64_t period_ns() const override { return 5 * kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    std::vector<ProcessEntry> processes = ListProcesses(proc_root_);
    if (processes.empty()) return {Health::kFailed, "cannot list the processes in " + proc_root_};
    std::ranges::sort(processes, {}, &ProcessEntry::pid);
    const bool hidden = processes.front().pid != 1;
    if (!before_.empty() && context.now_ns > before_ns_) Tell(processes, context.now_ns, sink);
    before_.clear();
    for (const ProcessEntry& process : processes) {
      before_.push_back({process.pid, process.start_time_ticks, process.cpu_ticks});
    }
    before_ns_ = context.now_ns;
    if (hidden) {
      return {Health::kDegraded, "processes of other users are hidden (/proc is mounted with hidepid)"};
    }
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
      names.push_back(FullName(*one.process));
      top.push_back(
          {.pid = one.process->pid, .name = std::string_view(names.back()), .cpu_pct = one.cpu_pct});
    }
    sink.Emit(MakeEvent(now_ns, 0, event::ProcTop{.top = top, .flagged = flagged}));
  }

  // The kernel's name, unless that was cut and the executable's says how it goes on.
  std::string FullName(const ProcessEntry& process) const {
    if (process.name.size() < kKernelNameLength) return process.name;
    std::error_code error;
    std::string executable =
        std::filesystem::read_symlink(proc_root_ + "/" + std::to_string(process.pid) + "/exe", error)
            .filename()
            .native();
    constexpr std::string_view kDeleted = " (deleted)";
    if (executable.ends_with(kDeleted)) executable.resize(executable.size() - kDeleted.size());
    return executable.starts_with(process.name) ? executable : process.name;
  }

  std::string proc_root_;
  std::vector<Seen> before_;  // By pid.
  uint64_t before_ns_ = 0;
  double ticks_per_second_ = static_cast<double>(::sysconf(_SC_CLK_TCK));
};

}  // namespace

std::unique_ptr<Probe> MakeProcProbe(const Roots& roots) { return std::make_unique<ProcProbe>(roots); }

}  // namespace smeltr::probe
