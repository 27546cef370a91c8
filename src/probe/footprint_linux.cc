#include <errno.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>

#include "base/clock.h"
#include "probe/emit.h"
#include "probe/footprint.h"
#include "probe/proc_text.h"
#include "probe/sampled_file.h"

namespace smeltr::probe {
namespace {

// Readings of a process between two of its proportional set size, and when that took long.
constexpr uint64_t kPssEvery = 5;
constexpr uint64_t kSlowPssEvery = 250;
constexpr uint64_t kSlowPssNs = 20'000'000;

using Identity = std::pair<uint32_t, uint64_t>;

class FootprintProbe : public Probe {
 public:
  FootprintProbe(std::shared_ptr<RecordedTrees> trees, std::shared_ptr<GpuLedger> ledger,
                 std::string proc_root, uint64_t default_period_ns)
      : trees_(std::move(trees)),
        ledger_(std::move(ledger)),
        proc_root_(std::move(proc_root)),
        schedule_(default_period_ns) {}

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
    std::array<char, 4096> buffer{};
    const auto text = ReadSmallFile(proc_root_ + "/self/status", buffer);
    if (!text.has_value() || ParseStatus(*text).rss_bytes == 0) {
      return {Health::kFailed, "cannot read " + proc_root_ + "/self/status"};
    }
    if (!ReadSmallFile(proc_root_ + "/self/smaps_rollup", buffer).has_value()) {
      return {Health::kDegraded, "no proportional sizes: the kernel has no smaps_rollup"};
    }
    return {};
  }

 private:
  struct Past {
    uint64_t taken_ns = 0;
    uint64_t cpu_ticks = 0;
    uint64_t readings = 0;
    uint64_t next_pss = 0;  // In `readings`.
    uint64_t bytes_at_pss = 0;
  };

  // False when it lives and does not let us look. One that is ending reads as nothing and is left out.
  bool Read(std::string_view session_id, const ProcessTree::Member& member, uint64_t now_ns, Past& past,
            Sink& sink) {
    const uint32_t pid = member.process.pid;
    const std::string directory = proc_root_ + "/" + std::to_string(pid);
    const auto text = ReadSmallFile(directory + "/status", buffer_);
    if (!text.has_value()) return errno == ENOENT || errno == ESRCH;
    const StatusFigures status = ParseStatus(*text);
    event::ProcFootprint sample;
    sample.phys_footprint_bytes =
        status.rss_anon_bytes + status.rss_shmem_bytes + status.swap_bytes + status.page_table_bytes;
    if (sample.phys_footprint_bytes == 0) return true;
    sample.target_pid = pid;
    sample.process_name = std::string_view(member.process.name);
    sample.lifetime_max_phys_footprint_bytes = status.peak_rss_bytes;
    sample.is_traced_root = member.is_root;
    sample.rss_bytes = status.rss_bytes;
    sample.swap_bytes = status.swap_bytes;
    sample.file_bytes = status.rss_file_bytes;
    sample.thread_count = status.thread_count;
    sample.cpu_pct = CpuPercent(member.process, now_ns, past);
    sample.pss_bytes = Pss(directory, sample.phys_footprint_bytes, past);
    if (const auto score = ReadSmallFile(directory + "/oom_score", buffer_)) {
      sample.oom_score = static_cast<uint32_t>(LeadingNumber(*score).value_or(0));
    }
    if (const auto use = ledger_->FindUse(now_ns, pid)) {
      sample.gpu_bytes = use->used_bytes;
      sample.gpu_busy_pct = use->busy_pct;
    }
    sink.EmitTo(session_id, MakeEvent(now_ns, pid, sample));
    ++past.readings;
    return true;
  }

  double CpuPercent(const ProcessEntry& process, uint64_t now_ns, Past& past) const {
    const uint64_t ticks = process.cpu_ticks - std::min(process.cpu_ticks, past.cpu_ticks);
    const double cpu_pct = past.taken_ns == 0 || now_ns <= past.taken_ns
                               ? 0
                               : 100.0 * static_cast<double>(ticks) * 1e9 / ticks_per_second_ /
                                     static_cast<double>(now_ns - past.taken_ns);
    past.taken_ns = now_ns;
    past.cpu_ticks = process.cpu_ticks;
    return cpu_pct;
  }

  uint64_t Pss(const std::string& directory, uint64_t bytes, Past& past) {
    const bool grown =
        past.next_pss < past.readings + kPssEvery && bytes > past.bytes_at_pss + past.bytes_at_pss / 10;
    if (past.readings < past.next_pss && !grown) return 0;
    const uint64_t begin_ns = MonotonicNowNs();
    const auto text = ReadSmallFile(directory + "/smaps_rollup", buffer_);
    const bool slow = MonotonicNowNs() - begin_ns > kSlowPssNs;
    past.next_pss = past.readings + (slow ? kSlowPssEvery : kPssEvery);
    past.bytes_at_pss = bytes;
    return text.has_value() ? ParsePss(*text).value_or(0) : 0;
  }

  std::shared_ptr<RecordedTrees> trees_;
  std::shared_ptr<GpuLedger> ledger_;
  std::string proc_root_;
  FootprintSchedule schedule_;
  std::map<Identity, Past> pasts_;
  Status status_;
  double ticks_per_second_ = static_cast<double>(::sysconf(_SC_CLK_TCK));
  std::array<char, 4096> buffer_{};
};

}  // namespace

std::unique_ptr<Probe> MakeFootprintProbe(std::shared_ptr<RecordedTrees> trees,
                                          std::shared_ptr<GpuLedger> ledger, const Roots& roots,
                                          uint64_t default_period_ns) {
  return std::make_unique<FootprintProbe>(std::move(trees), std::move(ledger), roots.proc, default_period_ns);
}

}  // namespace smeltr::probe
