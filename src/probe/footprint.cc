#include "probe/footprint.h"

#include <unistd.h>

#include <algorithm>
#include <utility>

#include "probe/emit.h"
#include "probe/proc_text.h"
#include "util/paths.h"

namespace smeltr::probe {
namespace {

constexpr uint64_t kShortestPeriodNs = 50'000'000;
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kLongestPeriodMs = 3'600'000;

class FootprintProbe : public Probe {
 public:
  FootprintProbe(std::shared_ptr<RecordedTrees> trees, std::shared_ptr<GpuLedger> ledger,
                 std::unique_ptr<FootprintReader> reader, uint64_t default_period_ns)
      : trees_(std::move(trees)),
        ledger_(std::move(ledger)),
        reader_(std::move(reader)),
        schedule_(default_period_ns) {}

  std::string_view name() const override { return "footprint"; }
  uint64_t period_ns() const override { return schedule_.period_ns(); }
  bool Wanted(const Context& context) const override { return !context.recordings.empty(); }
  Status Check() override { return reader_->Check(); }

  Status Sample(const Context& context, Sink& sink) override {
    const auto due = schedule_.TakeDue(context);
    if (due.empty()) return status_;
    const auto snapshot = trees_->Get(context);
    std::map<Identity, Past> pasts;
    bool refused = false;
    for (const TreeSnapshot::Tree& tree : snapshot->trees) {
      const bool is_due = std::ranges::any_of(
          due, [&](const Recorded* recorded) { return recorded->session_id == tree.session_id; });
      for (const ProcessTree::Member& member : tree.members) {
        const Identity identity{member.process.pid, member.process.start_time_ticks};
        const auto known = pasts_.find(identity);
        Past& past = pasts[identity];
        if (known != pasts_.end()) past = known->second;
        if (is_due) refused |= !Read(tree.session_id, member, snapshot->taken_ns, past, sink);
      }
    }
    pasts_ = std::move(pasts);
    status_ = refused ? Status{Health::kDegraded, "some recorded processes may not be read"} : Status{};
    return status_;
  }

 private:
  using Identity = std::pair<uint32_t, uint64_t>;
  struct Past {
    uint64_t taken_ns = 0;
    uint64_t cpu_ticks = 0;
    FootprintReader::Progress progress;
  };

  // False when it was refused.
  bool Read(std::string_view session_id, const ProcessTree::Member& member, uint64_t now_ns, Past& past,
            Sink& sink) {
    const ProcessEntry& process = member.process;
    event::ProcFootprint sample;
    const FootprintReader::Outcome outcome = reader_->Read(process.pid, past.progress, sample);
    if (outcome != FootprintReader::Outcome::kRead) return outcome == FootprintReader::Outcome::kGone;
    ++past.progress.readings;
    sample.target_pid = process.pid;
    sample.process_name = std::string_view(process.name);
    sample.is_traced_root = member.is_root;
    sample.thread_count = process.thread_count;
    if (past.taken_ns != 0 && now_ns > past.taken_ns) {
      const uint64_t ticks = process.cpu_ticks - std::min(process.cpu_ticks, past.cpu_ticks);
      sample.cpu_pct = 100.0 * static_cast<double>(ticks) * 1e9 / ticks_per_second_ /
                       static_cast<double>(now_ns - past.taken_ns);
    }
    past.taken_ns = now_ns;
    past.cpu_ticks = process.cpu_ticks;
    if (const auto use = ledger_->FindUse(now_ns, process.pid)) {
      sample.gpu_bytes = use->used_bytes;
      sample.gpu_busy_pct = use->busy_pct;
    }
    sink.EmitTo(session_id, MakeEvent(now_ns, process.pid, sample));
    return true;
  }

  std::shared_ptr<RecordedTrees> trees_;
  std::shared_ptr<GpuLedger> ledger_;
  std::unique_ptr<FootprintReader> reader_;
  FootprintSchedule schedule_;
  std::map<Identity, Past> pasts_;
  Status status_;
  double ticks_per_second_ = static_cast<double>(::sysconf(_SC_CLK_TCK));
};

}  // namespace

std::unique_ptr<Probe> MakeFootprintProbe(std::shared_ptr<RecordedTrees> trees,
                                          std::shared_ptr<GpuLedger> ledger, const Roots& roots,
                                          uint64_t default_period_ns) {
  return std::make_unique<FootprintProbe>(std::move(trees), std::move(ledger), MakeFootprintReader(roots),
                                          default_period_ns);
}

uint64_t FootprintPeriodFromEnvironment() {
  const auto text = Environment("SMELTR_FOOTPRINT_PERIOD_MS");
  if (!text.has_value() || text->find_first_not_of("0123456789") != std::string::npos) {
    return kDefaultFootprintPeriodNs;
  }
  const uint64_t ms = LeadingNumber(*text).value_or(0);
  return ms == 0 || ms > kLongestPeriodMs ? kDefaultFootprintPeriodNs : ms * kNsPerMs;
}

std::vector<const Recorded*> FootprintSchedule::TakeDue(const Context& context) {
  std::vector<const Recorded*> due;
  std::map<std::string, uint64_t, std::less<>> last_ns;
  period_ns_ = 0;
  for (const Recorded& recorded : context.recordings) {
    const uint64_t wanted_ns =
        recorded.footprint_period_ns == 0 ? default_period_ns_ : recorded.footprint_period_ns;
    const uint64_t period_ns = std::max(wanted_ns, kShortestPeriodNs);
    period_ns_ = period_ns_ == 0 ? period_ns : std::min(period_ns_, period_ns);
    const auto known = last_ns_.find(recorded.session_id);
    // Ticks come a little early or late: a tenth of a period is no reason to wait for the next one.
    const bool is_due =
        known == last_ns_.end() || context.now_ns + period_ns / 10 >= known->second + period_ns;
    if (is_due) due.push_back(&recorded);
    last_ns[recorded.session_id] = is_due ? context.now_ns : known->second;
  }
  last_ns_ = std::move(last_ns);
  return due;
}

}  // namespace smeltr::probe
