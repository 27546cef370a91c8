// Time windows of scopes and evals, the fallback for work that carries no scope stamp. The only place
// that builds windows.
//
// Each thread has layers of intervals; the latest-started interval that contains a time is that layer's
// answer. Both ends of an interval belong to it. Scopes of debug labels are no windows: they are opened
// while commands are recorded, not while they run.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "analysis/timeline.h"

namespace smeltr::analysis {

// How long after its return a scope, or an asynchronous eval, may still own work that shows up.
inline constexpr uint64_t kGraceNs = 500'000'000;

// Latest-started interval at a time, in O(log n).
class IntervalIndex {
 public:
  void Add(uint64_t begin_ns, uint64_t end_ns, uint32_t value) {
    intervals_.push_back({begin_ns, end_ns, value});
  }
  // Call once, after the last Add and before the first At.
  void Seal();
  uint32_t At(uint64_t ts_ns) const;  // kNone outside every interval.

  struct Change {
    uint64_t ts_ns;
    uint32_t value;  // From here on.
  };
  const std::vector<Change>& changes() const { return changes_; }
  bool empty() const { return changes_.empty(); }

 private:
  struct Interval {
    uint64_t begin_ns;
    uint64_t end_ns;
    uint32_t value;
  };
  std::vector<Interval> intervals_;  // Until Seal.
  std::vector<Change> changes_;
};

enum class Layer : uint8_t {
  kEval,      // Running evals with a scope.
  kScope,     // Open scopes.
  kGrace,     // Scopes and asynchronous evals that returned at most kGraceNs before.
  kLazyEval,  // Running evals outside every scope.
};
inline constexpr size_t kLayers = 4;

class Windows {
 public:
  explicit Windows(const Timeline& timeline);

  struct Hit {
    uint32_t scope = kNone;
    bool by_eval = false;
    bool ambiguous = false;  // Several other threads had a candidate.
  };
  // What `thread` of `process` had at `ts_ns`. A thread that never had windows of its own (a worker or
  // driver thread) borrows them when exactly one other thread of the process has a candidate.
  Hit At(Layer layer, uint32_t process, uint32_t thread, uint64_t ts_ns) const;
  // Whether the process has any windows at all.
  bool Any(uint32_t process) const { return process_has_windows_[process]; }

 private:
  struct ThreadWindows {
    std::array<IntervalIndex, kLayers> layers;
    bool own = false;
  };
  void AddScopes(const Timeline& timeline);
  void AddEvals(const Timeline& timeline);
  void Merge(const Timeline& timeline, size_t layer);

  std::vector<ThreadWindows> threads_;
  // Per process and layer: which single thread has a candidate from a time on.
  std::vector<std::array<std::vector<IntervalIndex::Change>, kLayers>> single_thread_;
  std::vector<bool> process_has_windows_;
};

}  // namespace smeltr::analysis
