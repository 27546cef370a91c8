#include "probe/recorded_trees.h"

#include <algorithm>

namespace smeltr::probe {
namespace {

constexpr uint64_t kFreshNs = 20'000'000;

}  // namespace

const TreeSnapshot::Tree* TreeSnapshot::Find(std::string_view session_id) const {
  const auto at = std::ranges::find(trees, session_id, &Tree::session_id);
  return at == trees.end() ? nullptr : &*at;
}

bool RecordedTrees::Serves(const Context& context) const {
  // Readings of the same tick begin within moments of each other, in any order.
  if (last_ == nullptr || context.now_ns > last_->taken_ns + kFreshNs) return false;
  return std::ranges::equal(context.recordings, last_->trees, {}, &Recorded::session_id,
                            &TreeSnapshot::Tree::session_id);
}

std::shared_ptr<const TreeSnapshot> RecordedTrees::Get(const Context& context) {
  const std::lock_guard lock(mutex_);
  if (Serves(context)) return last_;
  auto snapshot = std::make_shared<TreeSnapshot>();
  snapshot->taken_ns = context.now_ns;
  std::map<std::string, ProcessTree, std::less<>> trees;
  const std::vector<ProcessEntry> processes =
      context.recordings.empty() ? std::vector<ProcessEntry>() : ListProcesses(proc_root_);
  for (const Recorded& recorded : context.recordings) {
    auto known = trees_.extract(recorded.session_id);
    ProcessTree& tree = known.empty()
                            ? trees.try_emplace(recorded.session_id, recorded, proc_root_).first->second
                            : trees.insert(std::move(known)).position->second;
    tree.Update(processes);
    snapshot->trees.push_back({.session_id = recorded.session_id, .members = tree.members()});
  }
  trees_ = std::move(trees);
  last_ = std::move(snapshot);
  return last_;
}

}  // namespace smeltr::probe
