#include "probe/oom_victims.h"

#include <algorithm>

namespace smeltr::probe {
namespace {

// A victim leaves a moment after it was counted, or was seen to be gone in the reading before.
constexpr uint64_t kTogetherNs = 5'000'000'000;

bool SameProcess(const ProcessEntry& a, const ProcessEntry& b) {
  return a.pid == b.pid && a.start_time_ticks == b.start_time_ticks;
}

}  // namespace

std::vector<ProcessEntry> OomVictims::Update(uint64_t now_ns, const std::vector<ProcessTree::Member>& members,
                                             uint64_t oom_kill_count) {
  for (const ProcessEntry& process : alive_) {
    const bool still = std::ranges::any_of(
        members, [&](const ProcessTree::Member& member) { return SameProcess(member.process, process); });
    if (!still) ended_.push_back({process, now_ns});
  }
  alive_.clear();
  for (const ProcessTree::Member& member : members) alive_.push_back(member.process);
  std::erase_if(ended_, [&](const Ended& ended) { return now_ns - ended.noticed_ns > kTogetherNs; });

  if (has_count_ && oom_kill_count > count_) {
    unexplained_ += oom_kill_count - count_;
    counted_ns_ = now_ns;
  }
  has_count_ = true;
  count_ = oom_kill_count;
  if (unexplained_ > 0 && now_ns - counted_ns_ > kTogetherNs) unexplained_ = 0;

  std::vector<ProcessEntry> victims;
  if (unexplained_ == 0 || ended_.size() != unexplained_) return victims;
  for (Ended& ended : ended_) victims.push_back(std::move(ended.process));
  ended_.clear();
  unexplained_ = 0;
  return victims;
}

}  // namespace smeltr::probe
