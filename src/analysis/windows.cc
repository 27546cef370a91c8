#include "analysis/windows.h"

#include <algorithm>
#include <limits>

namespace smeltr::analysis {
namespace {

constexpr uint32_t kEvalBit = 0x8000'0000;
constexpr uint32_t kSeveralThreads = kNone - 1;
constexpr uint64_t kForever = std::numeric_limits<uint64_t>::max();

uint64_t Plus(uint64_t ts_ns, uint64_t more_ns) {
  return ts_ns > kForever - more_ns ? kForever : ts_ns + more_ns;
}

uint32_t ValueAt(const std::vector<IntervalIndex::Change>& changes, uint64_t ts_ns) {
  const auto after =
      std::upper_bound(changes.begin(), changes.end(), ts_ns,
                       [](uint64_t ts, const IntervalIndex::Change& c) { return ts < c.ts_ns; });
  return after == changes.begin() ? kNone : std::prev(after)->value;
}

}  // namespace

void IntervalIndex::Seal() {
  // Of those that start at once, the longer is the outer one.
  std::sort(intervals_.begin(), intervals_.end(), [](const Interval& a, const Interval& b) {
    if (a.begin_ns != b.begin_ns) return a.begin_ns < b.begin_ns;
    return a.end_ns != b.end_ns ? a.end_ns > b.end_ns : a.value < b.value;
  });
  std::vector<uint32_t> by_end(intervals_.size());
  for (uint32_t i = 0; i < by_end.size(); ++i) by_end[i] = i;
  std::sort(by_end.begin(), by_end.end(), [&](uint32_t a, uint32_t b) {
    return intervals_[a].end_ns != intervals_[b].end_ns ? intervals_[a].end_ns < intervals_[b].end_ns : a < b;
  });

  std::vector<bool> closed(intervals_.size());
  std::vector<uint32_t> open;  // In order of start; closed ones are dropped when they come to the top.
  size_t next_start = 0;
  size_t next_end = 0;
  while (next_end < by_end.size()) {
    const uint64_t end_after = Plus(intervals_[by_end[next_end]].end_ns, 1);
    const uint64_t start = next_start < intervals_.size() ? intervals_[next_start].begin_ns : kForever;
    const uint64_t now = std::min(start, end_after);
    while (next_start < intervals_.size() && intervals_[next_start].begin_ns == now) {
      open.push_back(static_cast<uint32_t>(next_start++));
    }
    while (next_end < by_end.size() && Plus(intervals_[by_end[next_end]].end_ns, 1) <= now) {
      closed[by_end[next_end++]] = true;
    }
    while (!open.empty() && closed[open.back()]) open.pop_back();
    const uint32_t value = open.empty() ? kNone : intervals_[open.back()].value;
    if (changes_.empty() || changes_.back().value != value) changes_.push_back({now, value});
  }
  std::vector<Interval>().swap(intervals_);
}

uint32_t IntervalIndex::At(uint64_t ts_ns) const { return ValueAt(changes_, ts_ns); }

Windows::Windows(const Timeline& timeline)
    : threads_(timeline.threads().size()),
      single_thread_(timeline.processes().size()),
      process_has_windows_(timeline.processes().size()) {
  AddScopes(timeline);
  AddEvals(timeline);
  for (uint32_t t = 0; t < threads_.size(); ++t) {
    for (IntervalIndex& layer : threads_[t].layers) layer.Seal();
    if (threads_[t].own) process_has_windows_[timeline.threads()[t].process] = true;
  }
  for (size_t layer = 0; layer < kLayers; ++layer) Merge(timeline, layer);
}

void Windows::AddScopes(const Timeline& timeline) {
  for (uint32_t i = 0; i < timeline.scopes().size(); ++i) {
    const Scope& scope = timeline.scopes()[i];
    if (!scope.entered || scope.origin == event::ScopeOrigin::kDebugLabel) continue;
    ThreadWindows& thread = threads_[scope.thread];
    thread.own = true;
    if (scope.exit_ns < scope.enter_ns) continue;
    thread.layers[static_cast<size_t>(Layer::kScope)].Add(scope.enter_ns, scope.exit_ns, i);
    if (!scope.returned) continue;
    thread.layers[static_cast<size_t>(Layer::kGrace)].Add(Plus(scope.exit_ns, 1),
                                                          Plus(scope.exit_ns, kGraceNs), i);
  }
}

void Windows::AddEvals(const Timeline& timeline) {
  for (const Eval& eval : timeline.evals()) {
    ThreadWindows& thread = threads_[eval.thread];
    thread.own = true;
    if (eval.exit_ns < eval.enter_ns) continue;
    const Layer layer = eval.scope == kNone ? Layer::kLazyEval : Layer::kEval;
    thread.layers[static_cast<size_t>(layer)].Add(eval.enter_ns, eval.exit_ns,
                                                  eval.scope == kNone ? kEvalBit : eval.scope | kEvalBit);
    if (eval.scope == kNone || !eval.was_async) continue;
    thread.layers[static_cast<size_t>(Layer::kGrace)].Add(Plus(eval.exit_ns, 1), Plus(eval.exit_ns, kGraceNs),
                                                          eval.scope | kEvalBit);
  }
}

void Windows::Merge(const Timeline& timeline, size_t layer) {
  struct Step {
    uint64_t ts_ns;
    uint32_t thread;
    bool open;
  };
  std::vector<std::vector<Step>> steps(single_thread_.size());
  for (uint32_t t = 0; t < threads_.size(); ++t) {
    bool was_open = false;
    for (const IntervalIndex::Change& change : threads_[t].layers[layer].changes()) {
      const bool open = change.value != kNone;
      if (open != was_open) steps[timeline.threads()[t].process].push_back({change.ts_ns, t, open});
      was_open = open;
    }
  }
  for (size_t p = 0; p < steps.size(); ++p) {
    std::sort(steps[p].begin(), steps[p].end(), [](const Step& a, const Step& b) {
      return a.ts_ns != b.ts_ns ? a.ts_ns < b.ts_ns : a.thread < b.thread;
    });
    uint64_t open_count = 0;
    uint64_t open_sum = 0;  // Of the thread numbers: with one open it names it.
    for (const Step& step : steps[p]) {
      open_count = step.open ? open_count + 1 : open_count - 1;
      open_sum = step.open ? open_sum + step.thread : open_sum - step.thread;
      uint32_t value = kSeveralThreads;
      if (open_count == 0) value = kNone;
      if (open_count == 1) value = static_cast<uint32_t>(open_sum);
      auto& changes = single_thread_[p][layer];
      if (!changes.empty() && changes.back().ts_ns == step.ts_ns) {
        changes.back().value = value;
      } else {
        changes.push_back({step.ts_ns, value});
      }
    }
  }
}

Windows::Hit Windows::At(Layer layer, uint32_t process, uint32_t thread, uint64_t ts_ns) const {
  const auto index = static_cast<size_t>(layer);
  if (thread == kNone || !threads_[thread].own) {
    thread = ValueAt(single_thread_[process][index], ts_ns);
    if (thread == kSeveralThreads) return {kNone, false, true};
    if (thread == kNone) return {};
  }
  const uint32_t value = threads_[thread].layers[index].At(ts_ns);
  if (value == kNone) return {};
  return {value & ~kEvalBit, (value & kEvalBit) != 0, false};
}

}  // namespace smeltr::analysis
