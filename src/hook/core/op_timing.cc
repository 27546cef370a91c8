#include "hook/core/op_timing.h"

#include <algorithm>
#include <cmath>

namespace smeltr::hook {
namespace {

constexpr uint64_t Mix(uint64_t value) {
  value ^= value >> 32;
  value *= 0x9E3779B97F4A7C15U;
  value ^= value >> 29;
  return value;
}

constexpr uint64_t Mask(uint32_t valid_bits) {
  return valid_bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << valid_bits) - 1;
}

// Not from <cmath>: that would make the hook need libm.
int64_t Round(double value) { return static_cast<int64_t>(value < 0 ? value - 0.5 : value + 0.5); }

bool IsKernel(event::OpType type) {
  return type == event::OpType::kDispatch || type == event::OpType::kDispatchIndirect ||
         type == event::OpType::kDraw || type == event::OpType::kRayTrace;
}

uint64_t AddSigned(uint64_t base, int64_t delta) { return base + static_cast<uint64_t>(delta); }

}  // namespace

uint64_t MixOp(uint64_t seed, uint64_t kernel, uint32_t x, uint32_t y, uint32_t z) {
  const uint64_t hash = Mix(seed + kernel);
  return Mix(Mix(hash + (uint64_t{x} << 32) + y) + z + 1);
}

// --- TickClock ---

void TickClock::Calibrate(uint64_t ticks, uint64_t ns) {
  // A rate from two readings close together would be noise; the nominal period is good to some ppm anyway.
  constexpr uint64_t kMinGapNs = 100'000'000;
  if (calibration_count_ > 0 && ns > last_.ns + kMinGapNs) {
    const double nominal = static_cast<double>(ticks - last_.ticks) * ns_per_tick_;
    const double rate = nominal > 0 ? static_cast<double>(ns - last_.ns) / nominal : 1.0;
    // Clocks drift by ppm. Anything else is a broken reading or a stepped clock.
    if (std::abs(rate - 1.0) < 1e-3) drift_ = rate;
  }
  last_ = {.ticks = ticks, .ns = ns};
  ++calibration_count_;
}

int64_t TickClock::SignedDelta(uint64_t from, uint64_t to, uint32_t valid_bits) const {
  const uint64_t mask = Mask(valid_bits);
  const uint64_t forward = (to - from) & mask;
  if (forward <= mask / 2) return static_cast<int64_t>(forward);
  return -static_cast<int64_t>((from - to) & mask);
}

uint64_t TickClock::ToNs(uint64_t ticks, uint32_t valid_bits) const {
  if (identity_) return AddSigned(ticks, epoch_shift_ns_);
  if (calibration_count_ == 0 && !learned_) return 0;
  const double delta =
      static_cast<double>(SignedDelta(last_.ticks, ticks, valid_bits)) * ns_per_tick_ * drift_;
  return AddSigned(AddSigned(last_.ns, Round(delta)), epoch_shift_ns_);
}

uint64_t TickClock::DurationNs(uint64_t from, uint64_t to, uint32_t valid_bits) const {
  const int64_t ticks = SignedDelta(from, to, valid_bits);
  if (ticks <= 0) return 0;
  return identity_ ? static_cast<uint64_t>(ticks)
                   : static_cast<uint64_t>(Round(static_cast<double>(ticks) * ns_per_tick_));
}

void TickClock::LearnFromWork(uint64_t begin_ticks, uint64_t end_ticks, uint64_t committed_ns,
                              uint64_t seen_ns, uint32_t valid_bits) {
  if (calibrated()) return;
  if (!learned_) {
    last_ = {.ticks = begin_ticks, .ns = committed_ns};
    learned_ = true;
    return;
  }
  // Each CB bounds the offset from both sides; move only as far as the bounds force.
  const uint64_t begin_ns = ToNs(begin_ticks, valid_bits);
  const uint64_t end_ns = ToNs(end_ticks, valid_bits);
  if (begin_ns < committed_ns) {
    last_.ns += committed_ns - begin_ns;
  } else if (end_ns > seen_ns) {
    last_.ns -= end_ns - seen_ns;
  }
  // Follow the work, so that a narrow counter never lies more than half its range from the reference.
  last_ = {.ticks = end_ticks, .ns = ToNs(end_ticks, valid_bits)};
}

CheckedSpan ClampToHost(GpuSpan span, uint64_t committed_ns, uint64_t seen_ns) {
  CheckedSpan checked;
  if (span.end_ns < span.start_ns) span.end_ns = span.start_ns;
  if (span.end_ns < committed_ns) {
    checked.epoch_error_ns = static_cast<int64_t>(committed_ns - span.start_ns);
  } else if (span.start_ns > seen_ns) {
    checked.epoch_error_ns = -static_cast<int64_t>(span.end_ns - seen_ns);
  }
  span.start_ns = AddSigned(span.start_ns, checked.epoch_error_ns);
  span.end_ns = AddSigned(span.end_ns, checked.epoch_error_ns);
  checked.span.start_ns = std::clamp(span.start_ns, committed_ns, std::max(committed_ns, seen_ns));
  checked.span.end_ns = std::clamp(span.end_ns, checked.span.start_ns, std::max(committed_ns, seen_ns));
  return checked;
}

// --- TimestampBudget ---

bool TimestampBudget::MaySample() const {
  const int64_t credit = credit_ns_.load(std::memory_order_relaxed);
  const int64_t usual = usual_points_.load(std::memory_order_relaxed) * price_ns();
  return credit > 0 && credit >= std::min(usual, MaxCreditNs());
}

bool TimestampBudget::Spend() {
  const int64_t price = price_ns();
  if (credit_ns_.fetch_sub(price, std::memory_order_relaxed) >= price) return true;
  credit_ns_.fetch_add(price, std::memory_order_relaxed);
  return false;
}

void TimestampBudget::Earn(uint64_t busy_ns) {
  const auto earned =
      static_cast<int64_t>(std::min<uint64_t>(busy_ns, 3600 * uint64_t{1'000'000'000}) / kShareDivisor);
  const int64_t credit = credit_ns_.load(std::memory_order_relaxed);
  // Spending in between only makes the cap a little low.
  if (credit < MaxCreditNs()) {
    credit_ns_.fetch_add(std::min(earned, MaxCreditNs() - credit), std::memory_order_relaxed);
  }
}

void TimestampBudget::NotePoints(uint32_t points) {
  const int64_t usual = usual_points_.load(std::memory_order_relaxed);
  // Quick up, slow down: a sample cut short is worth little.
  const int64_t next = points >= usual ? points : usual - (usual - points) / 8;
  usual_points_.store(next, std::memory_order_relaxed);
}

void TimestampBudget::NotePrice(uint64_t sampled_ns, uint64_t plain_ns, uint32_t points) {
  if (points == 0 || plain_ns == 0) return;
  // Noise of a busy machine must not make timestamps look free: too low a price spends the program's time.
  const int64_t extra = static_cast<int64_t>(sampled_ns) - static_cast<int64_t>(plain_ns);
  const int64_t measured =
      std::clamp(extra / static_cast<int64_t>(points), initial_price_ns_ / 4, initial_price_ns_ * 16);
  const int64_t price = price_ns();
  price_ns_.store(price + (measured - price) / 8, std::memory_order_relaxed);
}

// --- spans ---

void ShapeTable::Add(uint64_t shape, uint64_t span_ns) {
  if (shapes_.size() >= kMaxShapes && !shapes_.contains(shape)) shapes_.clear();
  Spans& spans = shapes_[shape];
  spans.ns[spans.count % kKept] = span_ns;
  ++spans.count;
}

uint64_t ShapeTable::Median(uint64_t shape) const {
  const auto found = shapes_.find(shape);
  if (found == shapes_.end()) return 0;
  std::array<uint64_t, kKept> sorted = found->second.ns;
  const size_t count = std::min<size_t>(found->second.count, kKept);
  std::nth_element(sorted.begin(), sorted.begin() + count / 2, sorted.begin() + count);
  return sorted[count / 2];
}

uint64_t UnsampledSpan(uint64_t measured_ns, uint64_t shape_median_ns, uint32_t points, int64_t price_ns) {
  if (shape_median_ns > 0) return std::min(measured_ns, shape_median_ns);
  const uint64_t cost = uint64_t{points} * static_cast<uint64_t>(std::max<int64_t>(price_ns, 0));
  return std::max(measured_ns - std::min(measured_ns, cost), measured_ns / 2);
}

void ShareExactly(std::span<const double> weights, uint64_t total, std::span<uint64_t> out) {
  double sum = 0;
  for (const double weight : weights) sum += weight;
  const bool equal = !(sum > 0);
  if (equal) sum = static_cast<double>(weights.size());
  // Differences of the rounded running sum: each share is within one ns of its due, and the last running
  // sum is `total` itself.
  double running = 0;
  uint64_t given = 0;
  for (size_t i = 0; i < weights.size(); ++i) {
    running += equal ? 1.0 : weights[i];
    const double due = static_cast<double>(total) * std::min(running / sum, 1.0);
    const bool last = i + 1 == weights.size();
    const uint64_t upto = last ? total : std::clamp(static_cast<uint64_t>(Round(due)), given, total);
    out[i] = upto - given;
    given = upto;
  }
}

// --- OpSplitter ---

std::span<const MergedOp> OpSplitter::Split(std::span<const RecordedOp> ops,
                                            std::span<const OpBoundary> boundaries, uint64_t span_ns,
                                            int64_t price_ns) {
  Merge(ops);
  if (merged_.empty()) return {};
  weights_.assign(merged_.size(), 0.0);
  if (boundaries.empty()) {
    WeighByProfile(ops);
  } else {
    MeasureIntervals(ops, boundaries, price_ns);
  }
  shares_.resize(merged_.size());
  ShareExactly(weights_, span_ns, shares_);
  for (size_t i = 0; i < merged_.size(); ++i) merged_[i].gpu_ns = shares_[i];
  return merged_;
}

void OpSplitter::Merge(std::span<const RecordedOp> ops) {
  merged_.clear();
  merged_index_.resize(ops.size());
  size_t slot_count = 64;
  while (slot_count < ops.size() * 2) slot_count *= 2;
  slots_.assign(slot_count, 0);
  for (uint32_t i = 0; i < ops.size(); ++i) {
    const RecordedOp& op = ops[i];
    uint64_t slot = MixOp(event::Raw(op.scope_id), op.kernel, op.x, op.y, op.z) & (slot_count - 1);
    for (;; slot = (slot + 1) & (slot_count - 1)) {
      if (slots_[slot] == 0) {
        merged_.push_back({.first = i});
        slots_[slot] = static_cast<uint32_t>(merged_.size());
        break;
      }
      const RecordedOp& other = ops[merged_[slots_[slot] - 1].first];
      if (other.kernel == op.kernel && other.x == op.x && other.y == op.y && other.z == op.z &&
          other.type == op.type && other.scope_id == op.scope_id) {
        break;
      }
    }
    merged_index_[i] = slots_[slot] - 1;
    ++merged_[merged_index_[i]].count;
  }
}

void OpSplitter::MeasureIntervals(std::span<const RecordedOp> ops, std::span<const OpBoundary> boundaries,
                                  int64_t price_ns) {
  uint32_t first = 0;
  uint64_t previous_ns = 0;
  for (const OpBoundary& boundary : boundaries) {
    const auto end = static_cast<uint32_t>(std::min<size_t>(boundary.op_count, ops.size()));
    const uint64_t raw_ns = boundary.ns > previous_ns ? boundary.ns - previous_ns : 0;
    previous_ns = std::max(previous_ns, boundary.ns);
    if (end <= first) continue;
    // An interval shorter than its own timestamp's usual price still did something.
    const double interval_ns = std::max(static_cast<double>(raw_ns) - static_cast<double>(price_ns),
                                        static_cast<double>(raw_ns) / 16);
    const auto group = ops.subspan(first, end - first);
    const bool alone = group.size() == 1;
    interval_weights_.resize(group.size());
    double sum = 0;
    bool all_known = true;
    for (size_t i = 0; i < group.size(); ++i) {
      interval_weights_[i] = WeightOf(group[i]);
      all_known = all_known && interval_weights_[i] > 0;
      sum += interval_weights_[i];
    }
    for (size_t i = 0; i < group.size(); ++i) {
      const double share = all_known ? interval_weights_[i] / sum : 1.0 / static_cast<double>(group.size());
      const uint32_t index = merged_index_[first + i];
      weights_[index] += interval_ns * share;
      merged_[index].precision =
          std::max(merged_[index].precision, alone ? event::Precision::kOp : event::Precision::kGroup);
      Learn(group[i], interval_ns * share, alone);
    }
    first = end;
  }
}

void OpSplitter::WeighByProfile(std::span<const RecordedOp> ops) {
  double known_sum = 0;
  uint64_t known_count = 0;
  for (size_t i = 0; i < merged_.size(); ++i) {
    weights_[i] = WeightOf(ops[merged_[i].first]) * merged_[i].count;
    if (weights_[i] > 0) {
      known_sum += weights_[i];
      known_count += merged_[i].count;
    }
  }
  const double usual = known_count > 0 ? known_sum / static_cast<double>(known_count) : 1.0;
  for (size_t i = 0; i < merged_.size(); ++i) {
    const bool known = weights_[i] > 0;
    if (!known) weights_[i] = usual * merged_[i].count;
    merged_[i].precision = known ? event::Precision::kProfile : event::Precision::kUniform;
  }
}

double OpSplitter::WeightOf(const RecordedOp& op) const {
  if (const auto exact = by_op_.find(MixOp(0, op.kernel, op.x, op.y, op.z)); exact != by_op_.end()) {
    return exact->second.mean_ns;
  }
  // A kernel at another size is a fair guess; a copy of another size is none.
  if (!IsKernel(op.type)) return 0;
  if (const auto kernel = by_kernel_.find(op.kernel); kernel != by_kernel_.end())
    return kernel->second.mean_ns;
  return 0;
}

void OpSplitter::Learn(const RecordedOp& op, double ns, bool alone) {
  Update(by_op_, MixOp(0, op.kernel, op.x, op.y, op.z), ns, alone);
  Update(by_kernel_, op.kernel, ns, alone);
}

void OpSplitter::Update(std::unordered_map<uint64_t, Learned>& table, uint64_t key, double ns, bool alone) {
  if (table.size() >= kMaxLearned && !table.contains(key)) table.clear();
  Learned& learned = table[key];
  if (learned.alone && !alone) return;  // A share of a group never overrides a measurement.
  if (alone && !learned.alone) learned = {.alone = true};
  learned.count = std::min<uint32_t>(learned.count + 1, 16);
  learned.mean_ns += (std::max(ns, 1.0) - learned.mean_ns) / learned.count;
}

}  // namespace smeltr::hook
