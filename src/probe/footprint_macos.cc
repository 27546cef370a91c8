#include <errno.h>
#include <libproc.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "probe/emit.h"
#include "probe/footprint.h"

namespace smeltr::probe {
namespace {

using Identity = std::pair<uint32_t, uint64_t>;

bool ReadUsage(uint32_t pid, rusage_info_v4& usage) {
  return ::proc_pid_rusage(static_cast<int>(pid), RUSAGE_INFO_V4, reinterpret_cast<rusage_info_t*>(&usage)) ==
         0;
}

class FootprintProbe : public Probe {
 public:
  FootprintProbe(std::shared_ptr<RecordedTrees> trees, std::shared_ptr<GpuLedger> ledger,
                 uint64_t default_period_ns)
      : trees_(std::move(trees)), ledger_(std::move(ledger)), schedule_(default_period_ns) {}

  std::string_view name() const override { return "footprint"; }
  uint64_t period_ns() const override { return schedule_.period_ns(); }
  bool Wanted(const Context& context) const override { return !context.recordings.empty(); }

  Status Sample(const Context& context, Sink& sink) override {
    const auto due = schedule_.TakeDue(context);
    if (due.empty()) return status_;
    const auto snapshot = trees_->Get(context);
    std::map<Identity, Past> pasts;
    size_t refused = 0;
    for (const TreeSnapshot::Tree& tree : snapshot->trees) {
      const bool is_due = std::ranges::any_of(
          due, [&](const Recorded* recorded) { return recorded->session_id == tree.session_id; });
      for (const ProcessTree::Member& member : tree.members) {
        const Identity identity{member.process.pid, member.process.start_time_ticks};
        const auto known = pasts_.find(identity);
        Past past = known == pasts_.end() ? Past{} : known->second;
        if (is_due && !Read(tree.session_id, member, snapshot->taken_ns, past, sink)) ++refused;
        pasts[identity] = past;
      }
    }
    pasts_ = std::move(pasts);
    status_ = refused == 0 ? Status{} : Status{Health::kDegraded, "some recorded processes may not be read"};
    return status_;
  }

  Status Check() override {
    rusage_info_v4 usage{};
    if (ReadUsage(static_cast<uint32_t>(::getpid()), usage)) return {};
    return {Health::kFailed, "the kernel does not tell even our own footprint"};
  }

 private:
  struct Past {
    uint64_t taken_ns = 0;
    uint64_t cpu_ticks = 0;
  };

  bool Read(std::string_view session_id, const ProcessTree::Member& member, uint64_t now_ns, Past& past,
            Sink& sink) {
    const ProcessEntry& process = member.process;
    rusage_info_v4 usage{};
    if (!ReadUsage(process.pid, usage)) return errno == ESRCH;
    // One that is ending reads as nothing.
    if (usage.ri_phys_footprint == 0) return true;
    event::ProcFootprint sample;
    sample.target_pid = process.pid;
    sample.process_name = std::string_view(process.name);
    sample.phys_footprint_bytes = usage.ri_phys_footprint;
    sample.lifetime_max_phys_footprint_bytes = usage.ri_lifetime_max_phys_footprint;
    sample.is_traced_root = member.is_root;
    sample.rss_bytes = usage.ri_resident_size;
    sample.thread_count = process.thread_count;
    if (past.taken_ns != 0 && now_ns > past.taken_ns) {
      const uint64_t ticks = process.cpu_ticks - std::min(process.cpu_ticks, past.cpu_ticks);
      sample.cpu_pct = 100.0 * static_cast<double>(ticks) * 1e9 / ticks_per_second_ /
                       static_cast<double>(now_ns - past.taken_ns);
    }
    past = {.taken_ns = now_ns, .cpu_ticks = process.cpu_ticks};
    if (const auto use = ledger_->FindUse(now_ns, process.pid)) {
      sample.gpu_bytes = use->used_bytes;
      sample.gpu_busy_pct = use->busy_pct;
    }
    sink.EmitTo(session_id, MakeEvent(now_ns, process.pid, sample));
    return true;
  }

  std::shared_ptr<RecordedTrees> trees_;
  std::shared_ptr<GpuLedger> ledger_;
  FootprintSchedule schedule_;
  std::map<Identity, Past> pasts_;
  Status status_;
  double ticks_per_second_ = static_cast<double>(::sysconf(_SC_CLK_TCK));
};

}  // namespace

std::unique_ptr<Probe> MakeFootprintProbe(std::shared_ptr<RecordedTrees> trees,
                                          std::shared_ptr<GpuLedger> ledger, const Roots& /*roots*/,
                                          uint64_t default_period_ns) {
  return std::make_unique<FootprintProbe>(std::move(trees), std::move(ledger), default_period_ns);
}

}  // namespace smeltr::probe
