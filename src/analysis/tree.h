// Scope calls -> nodes of the breakdown tree. Links are made after all scopes are known, so the order of
// events does not matter; cycles and lost parents hang under the root.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/breakdown.h"

namespace smeltr::analysis {

// Follows parents of scopes up to the root, once a scope, and gives each scope a place on the way back.
class ScopeWalk {
 public:
  explicit ScopeWalk(const Timeline& timeline)
      : timeline_(timeline), place_of_(timeline.scopes().size(), kNone) {}

  uint32_t PlaceOf(uint32_t scope) const { return place_of_[scope]; }
  // Scopes whose chain of parents breaks off or bites its own tail.
  uint64_t lost_parents() const { return lost_parents_; }

  // place(scope, place of its parent) -> its place; `root` is that of scopes without a parent.
  template <typename F>
  uint32_t Resolve(uint32_t scope, uint32_t root, F&& place);

 private:
  static constexpr uint32_t kVisiting = kNone - 1;

  const Timeline& timeline_;
  std::vector<uint32_t> place_of_;
  std::vector<uint32_t> path_;  // Reused.
  uint64_t lost_parents_ = 0;
};

// Which places of the tree have too many sets of fields to keep them apart, and what those have in common.
class FieldSets {
 public:
  explicit FieldSets(const Timeline& timeline);

  bool TooMany(uint32_t scope) const;
  // Of all scopes at the place of `scope`.
  const std::vector<Field>& Shared(uint32_t scope) const;
  const std::vector<std::string>& Varied(uint32_t scope) const;

 private:
  struct Place {
    uint32_t sets = 0;
    std::vector<Field> shared;
    std::vector<std::string> varied;
  };
  void Note(Place& place, std::vector<Field> fields);

  ScopeWalk walk_;
  std::vector<Place> places_;
};

class ScopeTree {
 public:
  // Fills breakdown.nodes (root and <unscoped> first) and the scope diagnostics.
  ScopeTree(const Timeline& timeline, const BreakdownOptions& options, Breakdown& breakdown);

  // The node that a scope's work belongs to; kUnscopedNode for kNone.
  uint32_t NodeOf(uint32_t scope) const { return scope == kNone ? kUnscopedNode : walk_.PlaceOf(scope); }

  static constexpr uint32_t kRootNode = 0;
  static constexpr uint32_t kUnscopedNode = 1;

 private:
  uint32_t Place(uint32_t scope, uint32_t parent_node);
  void AddCall(uint32_t node, const Scope& scope);

  const Timeline& timeline_;
  const bool per_call_;
  Breakdown& breakdown_;
  ScopeWalk walk_;
  std::optional<FieldSets> field_sets_;
  KeyIndex label_of_;     // (qualname, fields) -> label
  KeyIndex node_of_key_;  // (parent node, label) -> node
  uint32_t label_count_ = 0;
};

// Keeps nodes whose fields match, with their subtrees and ancestors; ancestors lose their own time.
void ApplyFilters(const std::vector<FieldFilter>& filters, Breakdown& breakdown);

// Subtree sums, then the order of children; drops an <unscoped> row that nothing belongs to.
void FinishTree(Breakdown& breakdown);

}  // namespace smeltr::analysis
