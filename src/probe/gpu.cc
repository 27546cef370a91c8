#include "probe/gpu.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "base/clock.h"
#include "probe/emit.h"

namespace smeltr::probe {
namespace {

// A driver that was not there is looked for again that often while another one works.
constexpr uint64_t kLookAgainNs = 300 * kNsPerSecond;
// Between samples while nothing is recorded.
constexpr uint64_t kRestNs = 30 * kNsPerSecond;

struct Opened {
  std::unique_ptr<GpuBackend> backend;
  bool open = false;
  bool resting = false;  // Closed by itself, to be opened again.
  uint64_t tried_ns = 0;
  size_t device_count = 0;
  std::string reason;
};

class GpuProbe : public Probe {
 public:
  GpuProbe(std::vector<std::unique_ptr<GpuBackend>> backends, std::shared_ptr<RecordedTrees> trees,
           std::shared_ptr<GpuLedger> ledger)
      : trees_(std::move(trees)), ledger_(std::move(ledger)) {
    for (auto& backend : backends) backends_.emplace_back().backend = std::move(backend);
  }

  std::string_view name() const override { return "gpu"; }
  uint64_t period_ns() const override { return kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    const bool at_rest = context.recordings.empty();
    if (at_rest && sampled_ns_ != 0 && context.now_ns - sampled_ns_ < kRestNs) return status_;
    sampled_ns_ = context.now_ns;
    status_ = Read(context, sink);
    if (at_rest) Rest();
    return status_;
  }

 private:
  Status Read(const Context& context, Sink& sink) {
    const bool any_open = std::ranges::any_of(backends_, &Opened::open);
    std::optional<GpuLedger::Heat> hottest;
    std::vector<GpuUse> uses;
    const std::vector<uint32_t> pids = RecordedPids(context);
    uint32_t first_index = 0;
    std::string lost;
    for (Opened& one : backends_) {
      if (!one.open && (one.resting || !any_open || context.now_ns - one.tried_ns >= kLookAgainNs))
        Open(one, context.now_ns);
      if (!one.open) continue;
      const std::vector<GpuReading> readings = one.backend->ReadDevices(context.now_ns);
      for (size_t i = 0; i < readings.size(); ++i) {
        Tell(readings[i], first_index + static_cast<uint32_t>(i), context.now_ns, sink, hottest);
      }
      if (readings.size() < one.device_count) {
        lost = "a GPU no longer answers";
        one.open = false;
      }
      one.device_count = readings.size();
      if (!pids.empty()) {
        for (GpuUse& use : one.backend->ReadUses(context.now_ns, pids)) {
          use.device += first_index;
          uses.push_back(use);
        }
      }
      first_index += static_cast<uint32_t>(readings.size());
    }
    ledger_->SetHeat(context.now_ns, std::move(hottest));
    TellUses(context, uses, sink);
    return Outcome(first_index, lost);
  }

  void Rest() {
    for (Opened& one : backends_) {
      if (!one.open || !one.backend->Rest()) continue;
      one.open = false;
      one.resting = true;
    }
  }

  static void Open(Opened& one, uint64_t now_ns) {
    one.reason.clear();
    one.resting = false;
    one.open = one.backend->Open(one.reason);
    one.tried_ns = now_ns;
    one.device_count = 0;
  }

  Status Outcome(uint32_t device_count, const std::string& lost) const {
    if (!lost.empty()) return {Health::kDegraded, lost};
    if (device_count > 0) return {};
    for (const Opened& one : backends_) {
      if (!one.reason.empty()) return {Health::kFailed, one.reason};
    }
    return {Health::kAbsent, "no GPU driver with counters here"};
  }

  std::vector<uint32_t> RecordedPids(const Context& context) {
    std::vector<uint32_t> pids;
    if (context.recordings.empty()) return pids;
    snapshot_ = trees_->Get(context);
    for (const TreeSnapshot::Tree& tree : snapshot_->trees) {
      for (const ProcessTree::Member& member : tree.members) pids.push_back(member.process.pid);
    }
    return pids;
  }

  static void Tell(const GpuReading& reading, uint32_t index, uint64_t now_ns, Sink& sink,
                   std::optional<GpuLedger::Heat>& hottest) {
    event::GpuDeviceSample sample = reading.sample;
    sample.device_index = index;
    sample.device_name = std::string_view(reading.name);
    sample.pci_address = std::string_view(reading.pci_address);
    sample.throttle_reasons = std::string_view(reading.throttle_reasons);
    sink.Emit(MakeEvent(now_ns, 0, sample));
    const bool is_hotter =
        !hottest.has_value() || reading.heat_level > hottest->level ||
        (reading.heat_level == hottest->level && sample.temperature_c > hottest->temperature_c);
    if (sample.temperature_c > 0 && is_hotter) {
      hottest = GpuLedger::Heat{.level = reading.heat_level,
                                .temperature_c = sample.temperature_c,
                                .sensor = "GPU " + std::to_string(index),
                                .throttle_reasons = reading.throttle_reasons};
    }
  }

  void TellUses(const Context& context, const std::vector<GpuUse>& uses, Sink& sink) {
    std::map<uint32_t, GpuLedger::Use> by_pid;
    for (const GpuUse& use : uses) {
      GpuLedger::Use& sum = by_pid[use.pid];
      sum.used_bytes += use.used_bytes;
      sum.busy_pct += use.busy_pct;
    }
    ledger_->SetUses(context.now_ns, std::move(by_pid));
    if (uses.empty() || snapshot_ == nullptr) return;
    for (const TreeSnapshot::Tree& tree : snapshot_->trees) {
      for (const ProcessTree::Member& member : tree.members) {
        for (const GpuUse& use : uses) {
          if (use.pid != member.process.pid) continue;
          sink.EmitTo(tree.session_id, MakeEvent(context.now_ns, use.pid,
                                                 event::GpuProcessSample{.target_pid = use.pid,
                                                                         .device_index = use.device,
                                                                         .used_bytes = use.used_bytes,
                                                                         .busy_pct = use.busy_pct}));
        }
      }
    }
  }

  std::vector<Opened> backends_;
  uint64_t sampled_ns_ = 0;
  Status status_;  // Of the last sample.
  std::shared_ptr<RecordedTrees> trees_;
  std::shared_ptr<GpuLedger> ledger_;
  std::shared_ptr<const TreeSnapshot> snapshot_;
};

}  // namespace

std::unique_ptr<Probe> MakeGpuProbe(std::vector<std::unique_ptr<GpuBackend>> backends,
                                    std::shared_ptr<RecordedTrees> trees, std::shared_ptr<GpuLedger> ledger) {
  return std::make_unique<GpuProbe>(std::move(backends), std::move(trees), std::move(ledger));
}

}  // namespace smeltr::probe
