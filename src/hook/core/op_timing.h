// GPU time, as pure arithmetic: device ticks to session ns, what a timestamp costs and how often one may be
// written, and how a command buffer's span is shared out over its ops. No device, no interface, no clock of
// its own; tested on any machine.
//
// Threads: TimestampBudget may be used from any thread; everything else belongs to the one thread that
// publishes a device's command buffers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "event/event.h"

namespace smeltr::hook {

struct GpuSpan {
  uint64_t start_ns = 0;
  uint64_t end_ns = 0;
  friend bool operator==(const GpuSpan&, const GpuSpan&) = default;
};

// Device ticks of one device -> session ns. A queue may deliver fewer than 64 bits and wrap.
class TickClock {
 public:
  // The device counts session ns itself.
  void SetIdentity() { identity_ = true; }
  // Ticks are `ns_per_tick` long.
  void SetPeriod(double ns_per_tick) { ns_per_tick_ = ns_per_tick; }
  // The device read `ticks` (all 64 bits) when the session clock read `ns`. Keeps the last two.
  void Calibrate(uint64_t ticks, uint64_t ns);
  bool calibrated() const { return identity_ || calibration_count_ > 0; }

  // Without a calibration, work teaches the offset: it began after `committed_ns` and ended before `seen_ns`.
  void LearnFromWork(uint64_t begin_ticks, uint64_t end_ticks, uint64_t committed_ns, uint64_t seen_ns,
                     uint32_t valid_bits);

  // 0 when nothing is known yet. The result is the instant nearest the last calibration that has these ticks.
  uint64_t ToNs(uint64_t ticks, uint32_t valid_bits) const;
  // Ticks from `from` to `to`, across a wrap, in ns.
  uint64_t DurationNs(uint64_t from, uint64_t to, uint32_t valid_bits) const;

  // A device whose calibrated clock has another epoch than its command buffers: added to all results.
  void ShiftEpoch(int64_t by_ns) { epoch_shift_ns_ += by_ns; }

 private:
  struct Pair {
    uint64_t ticks = 0;
    uint64_t ns = 0;
  };
  int64_t SignedDelta(uint64_t from, uint64_t to, uint32_t valid_bits) const;

  bool identity_ = false;
  double ns_per_tick_ = 1.0;
  double drift_ = 1.0;  // Measured session ns a nominal ns, between the last two calibrations.
  int64_t epoch_shift_ns_ = 0;
  uint32_t calibration_count_ = 0;
  Pair last_;
  bool learned_ = false;
};

// What a CB's timestamps may say at most: between commit and completion as the host saw them.
// `epoch_error_ns`, if not 0, is how far the device's clock must be shifted because the span lay wholly
// outside.
struct CheckedSpan {
  GpuSpan span;
  int64_t epoch_error_ns = 0;
};
CheckedSpan ClampToHost(GpuSpan span, uint64_t committed_ns, uint64_t seen_ns);

// Keeps the cost of per-op timestamps under a share of the GPU's busy time: a token bucket in ns.
class TimestampBudget {
 public:
  // To begin with, and at most saved up: about five command buffers of 200 ops. In timestamps rather than in
  // time, since where they are cheap a fixed time would buy far more samples than anything needs.
  static constexpr int64_t kCreditPoints = 1100;
  static constexpr uint64_t kShareDivisor = 50;  // 2 %.

  explicit TimestampBudget(int64_t price_ns)
      : initial_price_ns_(price_ns), price_ns_(price_ns), credit_ns_(kCreditPoints * price_ns) {}

  // Whether a recording that begins now may be sampled: enough credit for one of the usual size.
  bool MaySample() const;
  // Takes the price of one timestamp; false when there is no credit left: do not write it.
  bool Spend();
  // The GPU was busy for so long.
  void Earn(uint64_t busy_ns);
  // A sampled recording had so many points; the next is expected to be like it.
  void NotePoints(uint32_t points);
  // A sampled CB took `sampled_ns`, the same work unsampled `plain_ns`, with `points` timestamps more.
  void NotePrice(uint64_t sampled_ns, uint64_t plain_ns, uint32_t points);
  int64_t price_ns() const { return price_ns_.load(std::memory_order_relaxed); }

 private:
  int64_t MaxCreditNs() const { return kCreditPoints * initial_price_ns_; }

  const int64_t initial_price_ns_;
  std::atomic<int64_t> price_ns_;
  std::atomic<int64_t> credit_ns_;
  std::atomic<int64_t> usual_points_{0};
};

// Medians of the spans of CBs of one shape (same ops, dimensions and barriers), sampled ones left out.
class ShapeTable {
 public:
  void Add(uint64_t shape, uint64_t span_ns);
  // 0 when the shape has not been seen.
  uint64_t Median(uint64_t shape) const;

 private:
  static constexpr size_t kKept = 9;
  static constexpr size_t kMaxShapes = 4096;  // Then it starts afresh: shapes that never repeat.
  struct Spans {
    std::array<uint64_t, kKept> ns{};
    uint32_t count = 0;
  };
  std::unordered_map<uint64_t, Spans> shapes_;
};

// What a sampled CB would have taken without its extra timestamps: the median of its shape, else what is left
// after their price, but at least half. Never more than it took.
uint64_t UnsampledSpan(uint64_t measured_ns, uint64_t shape_median_ns, uint32_t points, int64_t price_ns);

// `out[i]` in proportion to `weights[i]` (equal if all are 0), whole ns, adding up to exactly `total`.
void ShareExactly(std::span<const double> weights, uint64_t total, std::span<uint64_t> out);

// One command as recorded. `kernel` is opaque: equal means the same code.
struct RecordedOp {
  uint64_t kernel = 0;
  uint32_t x = 0;
  uint32_t y = 0;
  uint32_t z = 0;
  event::OpType type = event::OpType::kOther;
  bool scope_is_label = false;  // scope_id comes from a label in the CB, not from the recording thread.
  event::ScopeId scope_id{};
};

// A timestamp inside a CB: `ns` after its begin, `op_count` ops before it.
struct OpBoundary {
  uint32_t op_count = 0;
  uint64_t ns = 0;
};

// Equal ops of one CB, taken together, in order of first appearance.
struct MergedOp {
  uint32_t first = 0;  // Index of the first of them.
  uint32_t count = 0;
  uint64_t gpu_ns = 0;
  event::Precision precision = event::Precision::kOp;
};

// Shares spans out over ops, and learns from sampled CBs how long each op takes.
class OpSplitter {
 public:
  // `boundaries`: empty when the CB was not sampled, else rising, the last one behind the last op.
  // `price_ns`: what each timestamp added to the interval it ends. The result's gpu_ns add up to `span_ns`
  // exactly; it is valid until the next call.
  std::span<const MergedOp> Split(std::span<const RecordedOp> ops, std::span<const OpBoundary> boundaries,
                                  uint64_t span_ns, int64_t price_ns);

 private:
  struct Learned {
    double mean_ns = 0;
    uint32_t count = 0;
    bool alone = false;  // From intervals that held nothing else.
  };
  static constexpr size_t kMaxLearned = size_t{64} * 1024;

  void Merge(std::span<const RecordedOp> ops);
  void MeasureIntervals(std::span<const RecordedOp> ops, std::span<const OpBoundary> boundaries,
                        int64_t price_ns);
  void WeighByProfile(std::span<const RecordedOp> ops);
  // Of exactly this op, else of its kernel at any size; 0 when unknown.
  double WeightOf(const RecordedOp& op) const;
  void Learn(const RecordedOp& op, double ns, bool alone);
  static void Update(std::unordered_map<uint64_t, Learned>& table, uint64_t key, double ns, bool alone);

  std::unordered_map<uint64_t, Learned> by_op_;
  std::unordered_map<uint64_t, Learned> by_kernel_;

  // Scratch, kept between calls.
  std::vector<MergedOp> merged_;
  std::vector<uint32_t> merged_index_;  // Of each op.
  std::vector<uint32_t> slots_;         // Open addressing: index into merged_ + 1.
  std::vector<double> weights_;         // Of each merged op.
  std::vector<double> interval_weights_;
  std::vector<uint64_t> shares_;
};

// Identity of an op for merging by shape: kernel and dimensions, order-dependent chain with `seed`.
uint64_t MixOp(uint64_t seed, uint64_t kernel, uint32_t x, uint32_t y, uint32_t z);

}  // namespace smeltr::hook
