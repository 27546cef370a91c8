// What a probe costs, and how often it may run at that price. Not thread-safe.
#pragma once

#include <algorithm>
#include <cstdint>

namespace smeltr::daemon {

class ProbeCost {
 public:
  // A probe may take this part of one core.
  static constexpr uint64_t kCoreShare = 100;

  void Start(uint64_t now_ns) { begin_ns_ = now_ns; }
  // A reading that ended now took so much of the processor.
  void Add(uint64_t now_ns, uint64_t cpu_ns) {
    cpu_ns_ += cpu_ns;
    if (now_ns - begin_ns_ >= kHalfWindowNs) {
      previous_cpu_ns_ = cpu_ns_;
      previous_wall_ns_ = now_ns - begin_ns_;
      cpu_ns_ = 0;
      begin_ns_ = now_ns;
    }
    ++readings_;
    if (readings_ <= kFreeReadings) return;  // Loading a driver's library is paid once.
    if (readings_ <= kFreeReadings + kLearningReadings) {
      typical_cpu_ns_ += cpu_ns / kLearningReadings;
    } else {
      typical_cpu_ns_ += cpu_ns / kMemory;
      typical_cpu_ns_ -= typical_cpu_ns_ / kMemory;
    }
  }

  // Of one core, over the last minute or since the start; 0 in the first second, which says nothing yet.
  double Percent(uint64_t now_ns) const {
    const uint64_t wall_ns = previous_wall_ns_ + (now_ns - begin_ns_);
    if (wall_ns < kShortestWindowNs) return 0;
    return 100.0 * static_cast<double>(previous_cpu_ns_ + cpu_ns_) / static_cast<double>(wall_ns);
  }

  // `period_ns`, or the multiple of it at which the probe stays within its share.
  uint64_t AffordablePeriod(uint64_t period_ns) {
    const bool learned = readings_ >= kFreeReadings + kLearningReadings;
    // What has been slowed down becomes faster again with some room to spare, not at the limit itself.
    const uint64_t factor = slowed_ ? kCoreShare * 5 / 4 : kCoreShare;
    slowed_ = learned && typical_cpu_ns_ * factor > period_ns;
    if (!slowed_) return period_ns;
    const uint64_t needed_ns = std::min(typical_cpu_ns_ * kCoreShare * 5 / 4, kLongestPeriodNs);
    return (needed_ns + period_ns - 1) / period_ns * period_ns;
  }
  bool slowed() const { return slowed_; }

 private:
  static constexpr uint64_t kHalfWindowNs = 30'000'000'000;
  static constexpr uint64_t kShortestWindowNs = 1'000'000'000;
  static constexpr uint64_t kLongestPeriodNs = 600'000'000'000;
  static constexpr uint64_t kFreeReadings = 1;
  static constexpr uint64_t kLearningReadings = 4;
  static constexpr uint64_t kMemory = 8;

  uint64_t begin_ns_ = 0;
  uint64_t cpu_ns_ = 0;
  uint64_t previous_cpu_ns_ = 0;
  uint64_t previous_wall_ns_ = 0;
  uint64_t readings_ = 0;
  uint64_t typical_cpu_ns_ = 0;  // Of one reading.
  bool slowed_ = false;
};

}  // namespace smeltr::daemon
