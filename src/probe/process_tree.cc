#include "probe/process_tree.h"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <unordered_map>

namespace smeltr::probe {
namespace {

// One pass over the parents of everybody: who has a member among its ancestors. Each process is looked at
// once, and a loop of parents, which a listing that took time can show, ends the search.
class Ancestry {
 public:
  explicit Ancestry(const std::vector<ProcessEntry>& processes) {
    by_pid_.reserve(processes.size());
    for (const ProcessEntry& process : processes) by_pid_.emplace(process.pid, &process);
  }

  const ProcessEntry* Find(uint32_t pid) const {
    const auto at = by_pid_.find(pid);
    return at == by_pid_.end() ? nullptr : at->second;
  }
  void AddMember(uint32_t pid) { verdicts_[pid] = Verdict::kInside; }
  bool IsInside(const ProcessEntry& process) {
    std::vector<uint32_t> path;
    Verdict verdict = Verdict::kOutside;
    for (const ProcessEntry* at = &process; at != nullptr; at = Parent(*at)) {
      const auto [known, fresh] = verdicts_.try_emplace(at->pid, Verdict::kAsking);
      if (!fresh) {
        if (known->second == Verdict::kInside) verdict = Verdict::kInside;
        break;
      }
      path.push_back(at->pid);
    }
    for (const uint32_t pid : path) verdicts_[pid] = verdict;
    return verdict == Verdict::kInside;
  }

 private:
  enum class Verdict : uint8_t { kAsking, kInside, kOutside };
  // None for one that started later than its child: its number was used again.
  const ProcessEntry* Parent(const ProcessEntry& process) const {
    const ProcessEntry* parent = Find(process.parent_pid);
    if (parent == nullptr || parent->start_time_ticks > process.start_time_ticks) return nullptr;
    return parent;
  }

  std::unordered_map<uint32_t, const ProcessEntry*> by_pid_;
  std::unordered_map<uint32_t, Verdict> verdicts_;
};

bool MayBeAsked(const ProcessEntry& process) {
  const uid_t user = ::geteuid();
  return user == 0 || process.uid == user;
}

}  // namespace

ProcessTree::Change ProcessTree::Update(const std::vector<ProcessEntry>& processes) {
  Change change;
  Ancestry ancestry(processes);
  std::vector<Member> stayed;
  stayed.reserve(members_.size());
  for (Member& member : members_) {
    const ProcessEntry* now = ancestry.Find(member.process.pid);
    if (now != nullptr && now->start_time_ticks == member.process.start_time_ticks && !IsDead(*now)) {
      member.process = *now;
      ancestry.AddMember(now->pid);
      stayed.push_back(std::move(member));
    } else {
      change.left.push_back(std::move(member));
    }
  }
  members_ = std::move(stayed);

  const auto is_member = [this](const ProcessEntry& process) {
    return std::ranges::any_of(members_,
                               [&](const Member& member) { return member.process.pid == process.pid; });
  };
  const ProcessEntry* root = ancestry.Find(recorded_.root_pid);
  if (root != nullptr && root->start_time_ticks == recorded_.root_start_time_ticks && !IsDead(*root) &&
      !is_member(*root)) {
    ancestry.AddMember(root->pid);
    change.joined.push_back({.process = *root, .is_root = true});
  }
  // Carriers of the token first: then their descendants are found in the same pass as the root's.
  for (const ProcessEntry& process : processes) {
    if (process.pid == recorded_.root_pid || IsDead(process) || is_member(process)) continue;
    if (CarriesToken(process)) ancestry.AddMember(process.pid);
  }
  for (const ProcessEntry& process : processes) {
    if (IsDead(process) || is_member(process) || !ancestry.IsInside(process)) continue;
    if (process.pid != recorded_.root_pid) change.joined.push_back({.process = process, .is_root = false});
  }
  std::ranges::copy(change.joined, std::back_inserter(members_));
  std::ranges::stable_partition(members_, &Member::is_root);
  ForgetEnded(processes);
  return change;
}

bool ProcessTree::CarriesToken(const ProcessEntry& process) {
  if (recorded_.token.empty() || process.start_time_ticks < recorded_.root_start_time_ticks ||
      !MayBeAsked(process)) {
    return false;
  }
  constexpr uint8_t kMoreTimes = 3;
  const auto [asked, first] = asked_.try_emplace({process.pid, process.start_time_ticks}, kMoreTimes);
  if (!first && asked->second == 0) return false;
  const auto answer = AskEnvironment(proc_root_, process.pid, "SMELTR_SCOPE_TOKEN=" + recorded_.token);
  if (answer == EnvironmentAnswer::kHas) {
    asked_.erase(asked);
    return true;
  }
  asked->second = answer == EnvironmentAnswer::kEmpty ? static_cast<uint8_t>(asked->second - 1) : uint8_t{0};
  return false;
}

void ProcessTree::ForgetEnded(const std::vector<ProcessEntry>& processes) {
  constexpr size_t kSpare = 64;
  if (asked_.size() <= processes.size() + kSpare) return;
  std::map<Identity, uint8_t> alive;
  for (const ProcessEntry& process : processes) {
    const auto known = asked_.find({process.pid, process.start_time_ticks});
    if (known != asked_.end()) alive.insert(*known);
  }
  asked_ = std::move(alive);
}

}  // namespace smeltr::probe
