#include "analysis/tree.h"

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <tuple>

namespace smeltr::analysis {
namespace {

uint64_t Pair(uint32_t high, uint32_t low) { return static_cast<uint64_t>(high) << 32 | low; }

template <typename T>
std::optional<T> ParseNumber(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool EqualNoCase(std::string_view a, std::string_view lower) {
  return std::equal(a.begin(), a.end(), lower.begin(), lower.end(),
                    [](char x, char y) { return (x >= 'A' && x <= 'Z' ? x - 'A' + 'a' : x) == y; });
}

// The user typed text; the program recorded a type. Numbers compare by value.
bool FieldEquals(const Field& field, std::string_view wanted) {
  switch (field.type) {
    case event::AttributeType::kString:
      return field.text == wanted;
    case event::AttributeType::kBool:
      return EqualNoCase(wanted, field.bits != 0 ? "true" : "false");
    case event::AttributeType::kInt: {
      const auto recorded = static_cast<int64_t>(field.bits);
      if (const auto exact = ParseNumber<int64_t>(wanted)) return *exact == recorded;
      const auto value = ParseNumber<double>(wanted);
      return value && *value == static_cast<double>(recorded);
    }
    case event::AttributeType::kFloat: {
      const auto value = ParseNumber<double>(wanted);
      return value && *value == std::bit_cast<double>(field.bits);
    }
  }
  return false;
}

bool NodeMatches(const Node& node, const std::vector<FieldFilter>& filters) {
  return std::all_of(filters.begin(), filters.end(), [&](const FieldFilter& filter) {
    return std::any_of(node.fields.begin(), node.fields.end(), [&](const Field& field) {
      return field.key == filter.key && FieldEquals(field, filter.value);
    });
  });
}

bool Before(const Node& a, const Node& b) {
  if (a.gpu_ns_subtree != b.gpu_ns_subtree) return a.gpu_ns_subtree > b.gpu_ns_subtree;
  return std::tie(a.first_ts_ns, a.pid, a.scope_id) < std::tie(b.first_ts_ns, b.pid, b.scope_id);
}

void ClearOwn(Node& node) {
  node.gpu_ns_self = 0;
  node.cb_count = 0;
  node.eval_count = 0;
  node.ops.clear();
}

}  // namespace

template <typename F>
uint32_t ScopeWalk::Resolve(uint32_t scope, uint32_t root, F&& place) {
  // Up to the first ancestor that has a place already, or to the root; then down again, making places.
  uint32_t parent_place = root;
  for (uint32_t at = scope; at != kNone; at = timeline_.scopes()[at].parent) {
    if (place_of_[at] == kVisiting || !timeline_.scopes()[at].entered) {
      ++lost_parents_;
      break;
    }
    if (place_of_[at] != kNone) {
      parent_place = place_of_[at];
      break;
    }
    place_of_[at] = kVisiting;
    path_.push_back(at);
  }
  for (; !path_.empty(); path_.pop_back()) {
    parent_place = place(path_.back(), parent_place);
    place_of_[path_.back()] = parent_place;
  }
  return parent_place;
}

FieldSets::FieldSets(const Timeline& timeline) : walk_(timeline), places_(1) {
  KeyIndex place_of_key;  // (parent place, qualname) -> place
  KeyIndex seen;          // (place, fields)
  std::vector<uint32_t> depth{0};
  const auto place = [&](uint32_t number, uint32_t parent) {
    if (depth[parent] == kMaxTreeDepth) return parent;
    const Scope& scope = timeline.scopes()[number];
    uint32_t& found = place_of_key[Pair(parent, scope.qualname)];
    if (found == kNone) {
      found = static_cast<uint32_t>(places_.size());
      places_.emplace_back();
      depth.push_back(depth[parent] + 1);
    }
    const uint32_t at = found;
    uint32_t& set = seen[Pair(at, scope.fields)];
    if (set == kNone) {
      set = 0;
      Note(places_[at], DecodeFields(timeline.texts()[scope.fields]));
    }
    return at;
  };
  for (uint32_t i = 0; i < timeline.scopes().size(); ++i) {
    if (timeline.scopes()[i].entered) walk_.Resolve(i, 0, place);
  }
}

void FieldSets::Note(Place& place, std::vector<Field> fields) {
  if (place.sets++ == 0) {
    place.shared = std::move(fields);
    return;
  }
  const auto vary = [&](const std::string& key) {
    const auto at = std::lower_bound(place.varied.begin(), place.varied.end(), key);
    if (at == place.varied.end() || *at != key) place.varied.insert(at, key);
  };
  std::erase_if(place.shared, [&](const Field& shared) {
    const bool same = std::find(fields.begin(), fields.end(), shared) != fields.end();
    if (!same) vary(shared.key);
    return !same;
  });
  for (const Field& field : fields) {
    if (std::find(place.shared.begin(), place.shared.end(), field) == place.shared.end()) vary(field.key);
  }
}

bool FieldSets::TooMany(uint32_t scope) const { return places_[walk_.PlaceOf(scope)].sets > kMaxFieldSets; }
const std::vector<Field>& FieldSets::Shared(uint32_t scope) const {
  return places_[walk_.PlaceOf(scope)].shared;
}
const std::vector<std::string>& FieldSets::Varied(uint32_t scope) const {
  return places_[walk_.PlaceOf(scope)].varied;
}

ScopeTree::ScopeTree(const Timeline& timeline, const BreakdownOptions& options, Breakdown& breakdown)
    : timeline_(timeline), per_call_(options.per_call), breakdown_(breakdown), walk_(timeline) {
  if (!options.per_call && !options.by_fields && options.filters.empty()) field_sets_.emplace(timeline);
  breakdown.nodes.resize(2);
  breakdown.nodes[kRootNode].qualname = kRootName;
  breakdown.nodes[kUnscopedNode].qualname = kUnscopedName;
  breakdown.nodes[kUnscopedNode].parent = kRootNode;
  breakdown.nodes[kUnscopedNode].depth = 1;
  breakdown.nodes[kUnscopedNode].first_ts_ns = ~uint64_t{0};
  for (uint32_t i = 0; i < timeline.scopes().size(); ++i) {
    const Scope& scope = timeline.scopes()[i];
    if (!scope.entered) {
      if (scope.returned) ++breakdown.diagnostics.orphan_returns;
      continue;
    }
    if (!scope.returned) ++breakdown.diagnostics.open_at_end;
    ++breakdown.scope_calls;
    AddCall(
        walk_.Resolve(i, kRootNode, [&](uint32_t number, uint32_t parent) { return Place(number, parent); }),
        scope);
  }
  breakdown.diagnostics.lost_parents = walk_.lost_parents();
}

uint32_t ScopeTree::Place(uint32_t scope_number, uint32_t parent_node) {
  const uint32_t depth = breakdown_.nodes[parent_node].depth + 1;
  if (depth > kMaxTreeDepth) {
    ++breakdown_.diagnostics.depth_folded;
    return parent_node;
  }
  const Scope& scope = timeline_.scopes()[scope_number];
  const bool over_fields = field_sets_ && field_sets_->TooMany(scope_number);
  const auto fresh = static_cast<uint32_t>(breakdown_.nodes.size());
  if (!per_call_) {
    uint32_t& label = label_of_[Pair(scope.qualname, over_fields ? kNone : scope.fields)];
    if (label == kNone) label = label_count_++;
    uint32_t& node = node_of_key_[Pair(parent_node, label)];
    if (node != kNone) return node;
    node = fresh;
  }
  Node& node = breakdown_.nodes.emplace_back();
  node.qualname = timeline_.texts()[scope.qualname];
  node.class_name = timeline_.texts()[scope.class_name];
  if (over_fields) {
    node.fields = field_sets_->Shared(scope_number);
    node.varied_fields = field_sets_->Varied(scope_number);
  } else {
    node.fields = DecodeFields(timeline_.texts()[scope.fields]);
  }
  node.parent = parent_node;
  node.depth = depth;
  node.first_ts_ns = ~uint64_t{0};
  return fresh;
}

void ScopeTree::AddCall(uint32_t node_number, const Scope& scope) {
  Node& node = breakdown_.nodes[node_number];
  ++node.calls;
  const uint32_t pid = timeline_.processes()[scope.process].pid;
  if (std::tie(scope.enter_ns, pid, scope.id) >= std::tie(node.first_ts_ns, node.pid, node.scope_id)) return;
  node.first_ts_ns = scope.enter_ns;
  node.pid = pid;
  node.scope_id = scope.id;
}

void ApplyFilters(const std::vector<FieldFilter>& filters, Breakdown& breakdown) {
  if (filters.empty()) return;
  breakdown.filtered = true;
  std::vector<Node>& nodes = breakdown.nodes;
  // Parents stand before their children, so one pass down and one up are enough.
  std::vector<bool> matched(nodes.size());
  std::vector<bool> kept(nodes.size());
  for (size_t i = 1; i < nodes.size(); ++i) {
    matched[i] = matched[nodes[i].parent] || NodeMatches(nodes[i], filters);
    kept[i] = matched[i];
  }
  for (size_t i = nodes.size() - 1; i > 0; --i) {
    if (kept[i]) kept[nodes[i].parent] = true;
  }
  kept[ScopeTree::kRootNode] = true;
  std::vector<uint32_t> new_number(nodes.size(), kNone);
  std::vector<Node> result;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (!kept[i]) continue;
    new_number[i] = static_cast<uint32_t>(result.size());
    if (!matched[i]) ClearOwn(nodes[i]);
    if (nodes[i].parent != kNone) nodes[i].parent = new_number[nodes[i].parent];
    result.push_back(std::move(nodes[i]));
  }
  nodes = std::move(result);
}

void FinishTree(Breakdown& breakdown) {
  std::vector<Node>& nodes = breakdown.nodes;
  for (size_t i = nodes.size(); i-- > 0;) {
    Node& node = nodes[i];
    node.gpu_ns_subtree += node.gpu_ns_self;
    if (node.parent != kNone) nodes[node.parent].gpu_ns_subtree += node.gpu_ns_subtree;
  }
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    const Node& node = nodes[i];
    const bool nothing = node.calls == 0 && node.gpu_ns_subtree == 0 && node.cb_count == 0 &&
                         node.eval_count == 0 && node.ops.empty() && node.qualname == kUnscopedName;
    if (!nothing) nodes[node.parent].children.push_back(i);
  }
  for (Node& node : nodes) {
    std::sort(node.children.begin(), node.children.end(),
              [&](uint32_t a, uint32_t b) { return Before(nodes[a], nodes[b]); });
  }
}

}  // namespace smeltr::analysis
