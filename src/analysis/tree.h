// Scope calls -> nodes of the breakdown tree. Links are made after all scopes are known, so the order of
// events does not matter; cycles and lost parents hang under the root.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/breakdown.h"

namespace smeltr::analysis {

class ScopeTree {
 public:
  // Fills breakdown.nodes (root and <unscoped> first) and the scope diagnostics.
  ScopeTree(const Timeline& timeline, bool per_call, Breakdown& breakdown);

  // The node that a scope's work belongs to; kUnscopedNode for kNone.
  uint32_t NodeOf(uint32_t scope) const { return scope == kNone ? kUnscopedNode : node_of_[scope]; }

  static constexpr uint32_t kRootNode = 0;
  static constexpr uint32_t kUnscopedNode = 1;

 private:
  uint32_t Resolve(uint32_t scope);
  uint32_t Place(uint32_t scope, uint32_t parent_node);
  void AddCall(uint32_t node, const Scope& scope);

  const Timeline& timeline_;
  const bool per_call_;
  Breakdown& breakdown_;
  std::vector<uint32_t> node_of_;  // By scope; kNone until resolved.
  KeyIndex label_of_;              // (qualname, fields) -> label
  KeyIndex node_of_key_;           // (parent node, label) -> node
  uint32_t label_count_ = 0;
};

// Keeps nodes whose fields match, with their subtrees and ancestors; ancestors lose their own time.
void ApplyFilters(const std::vector<FieldFilter>& filters, Breakdown& breakdown);

// Subtree sums, then the order of children; drops an <unscoped> row that nothing belongs to.
void FinishTree(Breakdown& breakdown);

}  // namespace smeltr::analysis
