// The tree of GPU time: whose it is, scope by scope, and which kernels took it.
//
// Every nanosecond is counted once: the sum over nodes' self times, the sum over all op rows, and exact +
// window + unscoped all equal gpu_ns. What cannot be placed has a row of its own (<unscoped>,
// "(no op detail)"), never a silent gap.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/attribution.h"
#include "analysis/event_source.h"
#include "analysis/ops.h"
#include "analysis/timeline.h"
#include "base/result.h"

namespace smeltr::analysis {

inline constexpr std::string_view kRootName = "<root>";
inline constexpr std::string_view kUnscopedName = "<unscoped>";
// Scopes nested deeper are counted with their ancestor of this depth.
inline constexpr uint32_t kMaxTreeDepth = 256;

struct FieldFilter {
  std::string key;
  std::string value;
};
// "key=value", both trimmed.
Result<FieldFilter> ParseFieldFilter(std::string_view text);

// Calls at one place of the tree with more different sets of fields than this are one node all the same:
// a step counter would otherwise tear the tree into as many copies as there are steps.
inline constexpr uint32_t kMaxFieldSets = 8;

struct BreakdownOptions {
  bool per_call = false;   // One node a call, instead of one for all calls with the same path and fields.
  bool by_fields = false;  // No limit of kMaxFieldSets. Filters imply it.
  GroupBy group_by = GroupBy::kName;
  std::vector<FieldFilter> filters{};  // All must match; a match keeps its whole subtree.
};

struct Node {
  std::string qualname;
  std::string class_name;
  std::vector<Field> fields;               // Those that all its calls share.
  std::vector<std::string> varied_fields;  // Keys whose values differ between its calls.
  uint32_t parent = kNone;
  uint32_t depth = 0;  // Root 0.
  uint64_t calls = 0;
  uint64_t gpu_ns_self = 0;
  uint64_t gpu_ns_subtree = 0;
  uint64_t cb_count = 0;  // Completed CBs submitted here.
  uint64_t eval_count = 0;
  uint64_t first_ts_ns = 0;  // Of its first call; breaks ties, as do:
  uint32_t pid = 0;
  uint64_t scope_id = 0;
  std::vector<uint32_t> children;  // Subtree time descending.
  std::vector<OpRow> ops;          // Time descending.
};

struct QueueTime {
  uint32_t pid = 0;
  uint64_t queue_id = 0;
  std::string label;
  uint64_t gpu_ns = 0;
  uint64_t span_ns = 0;  // First start to last end on the GPU; gpu_ns is never more.
};

struct Diagnostics {
  std::array<uint64_t, kMethods> method_cbs{};
  std::array<uint64_t, kMethods> method_ns{};
  std::array<uint64_t, kUnscopedReasons> unscoped_cbs{};
  uint64_t orphan_ops = 0;        // Op lists of CBs that are not in the session.
  uint64_t orphan_returns = 0;    // Returns of scopes never entered.
  uint64_t open_at_end = 0;       // Scopes that never returned.
  uint64_t lost_parents = 0;      // Scopes whose parent is not in the session: shown under the root.
  uint64_t depth_folded = 0;      // Scopes below kMaxTreeDepth.
  uint64_t cbs_without_ops = 0;   // Had GPU time, but no op list.
  uint64_t cbs_ops_rescaled = 0;  // Op lists that did not add up to their CB's span.
};

// Something the reader must know before trusting the figures.
struct Notice {
  std::string code;  // Stable, for --json.
  std::string text;  // One sentence or two.
};

struct Breakdown {
  std::vector<Node> nodes;  // [0] is the root; empty only before Compute.
  uint64_t gpu_ns = 0;      // Of the session; nodes[0].gpu_ns_subtree is what the filters kept.
  uint64_t gpu_ns_raw = 0;  // Before overlaps on a queue were taken out.
  uint64_t wall_ns = 0;
  uint64_t exact_ns = 0;
  uint64_t window_ns = 0;
  uint64_t unscoped_ns = 0;
  uint64_t host_timed_ns = 0;  // Of CBs without GPU timestamps: upper bounds.
  std::array<uint64_t, kPrecisions> precision_ns{};
  CbCounts cbs;
  std::vector<QueueTime> queues;  // Time descending.
  CaptureLoss loss;
  Diagnostics diagnostics;
  uint64_t scope_calls = 0;
  bool filtered = false;
  std::vector<Notice> notices;
};

Breakdown ComputeBreakdown(const EventSource& source, const BreakdownOptions& options);

// Op rows of the whole tree, one a key.
std::vector<OpRow> FlatOps(const Breakdown& breakdown, GroupBy group_by);

// What of the tree to show. Unset = no limit.
struct TreeLimits {
  std::optional<uint64_t> top{};      // The largest nodes; their ancestors come with them.
  std::optional<uint32_t> depth{};    // 0 = top level only.
  std::optional<uint64_t> top_ops{};  // Per node.
};

struct ShownTree {
  std::vector<bool> shown;  // Per node.
  uint64_t nodes_cut = 0;
};
ShownTree SelectNodes(const Breakdown& breakdown, const TreeLimits& limits);

}  // namespace smeltr::analysis
