#include "analysis/breakdown.h"

#include <algorithm>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "analysis/notices.h"
#include "analysis/tree.h"

namespace smeltr::analysis {
namespace {

// One kernel, as the op rows of nodes share it.
struct OpName {
  uint32_t symbol = 0;
  uint32_t name = 0;
  event::OpType type = event::OpType::kOther;
};

struct OpTotal {
  uint32_t node = 0;
  uint32_t op = 0;
  uint64_t gpu_ns = 0;
  uint64_t count = 0;
  std::array<uint64_t, kPrecisions> precision_ns{};
};

// One op of a CB whose list is not complete yet.
struct PendingOp {
  uint32_t op = 0;
  uint32_t scope = kNone;  // Its own stamp.
  uint32_t count = 0;
  uint8_t precision = 0;
  uint64_t gpu_ns = 0;
};

struct KnownOp {
  uint64_t batch = 0;
  std::string_view name;
  std::string_view symbol;
  uint32_t op = kNone;
};

class Accumulator {
 public:
  Accumulator(const EventSource& source, const BreakdownOptions& options, Breakdown& breakdown)
      : options_(options),
        breakdown_(breakdown),
        timeline_(Timeline::Build(source)),
        attributions_(Attribute(timeline_)),
        tree_(timeline_, options, breakdown),
        settled_(timeline_.cbs().size()) {
    source.ForEachBatch(event::Kind::kCbOps,
                        [&](std::span<const event::Envelope> envelopes, const void* rows) {
                          ++batch_;
                          const auto* row = static_cast<const event::CbOps*>(rows);
                          for (const event::Envelope& envelope : envelopes) OnOps(envelope.pid, *row++);
                        });
    SettleRest();
    CountCbs();
    CountEvals();
    CopyTotals();
    MakeOpRows();
  }

  const Timeline& timeline() const { return timeline_; }

 private:
  // The usual list is complete in one event and adds up to its CB's span: it is booked at once. Others
  // wait until the end of the pass.
  void OnOps(uint32_t pid, const event::CbOps& fields) {
    const uint32_t cb_number = timeline_.FindCb(pid, fields.cb_id);
    if (cb_number == kNone || !timeline_.cbs()[cb_number].completed) {
      ++breakdown_.diagnostics.orphan_ops;
      return;
    }
    const CommandBuffer& cb = timeline_.cbs()[cb_number];
    uint64_t sum_ns = 0;
    buffer_.clear();
    for (const event::OpSample& op : fields.ops) {
      PendingOp& pending = buffer_.emplace_back();
      pending.op = OpOf(op);
      pending.scope = ScopeOf(pid, op.scope_id);
      pending.count = op.count;
      pending.precision = std::min(static_cast<uint8_t>(op.precision), uint8_t{kPrecisionNoDetail - 1});
      pending.gpu_ns = op.gpu_ns;
      sum_ns += op.gpu_ns;
    }
    if (sum_ns == cb.span_ns() && !settled_[cb_number] && !partial_.contains(cb_number)) {
      Book(cb_number, buffer_);
      settled_[cb_number] = true;
      return;
    }
    std::vector<PendingOp>& waiting = partial_[cb_number];
    waiting.insert(waiting.end(), buffer_.begin(), buffer_.end());
  }

  void SettleRest() {
    for (auto& [cb_number, ops] : partial_) {
      if (settled_[cb_number]) {  // More of a list that was complete: count the ops, they have no time left.
        for (PendingOp& op : ops) op.gpu_ns = 0;
        ++breakdown_.diagnostics.cbs_ops_rescaled;
        BookOps(cb_number, ops);
      } else {
        Book(cb_number, ops);
        settled_[cb_number] = true;
      }
    }
    for (uint32_t i = 0; i < timeline_.cbs().size(); ++i) {
      if (settled_[i] || !timeline_.cbs()[i].completed || timeline_.cbs()[i].gpu_ns == 0) continue;
      ++breakdown_.diagnostics.cbs_without_ops;
      BookRemainder(i, timeline_.cbs()[i].gpu_ns);
    }
  }

  // Books the whole list of a CB, scaled to the CB's share of its queue's time; never up.
  void Book(uint32_t cb_number, std::span<PendingOp> ops) {
    const CommandBuffer& cb = timeline_.cbs()[cb_number];
    using Wide = unsigned __int128;
    Wide sum_ns = 0;
    for (const PendingOp& op : ops) sum_ns += op.gpu_ns;
    if (sum_ns != cb.span_ns()) ++breakdown_.diagnostics.cbs_ops_rescaled;
    const Wide span_ns = std::max<Wide>(cb.span_ns(), sum_ns);
    const auto target_ns = span_ns == 0 ? 0 : static_cast<uint64_t>(sum_ns * cb.gpu_ns / span_ns);
    if (sum_ns != target_ns) {
      values_.clear();
      for (const PendingOp& op : ops) values_.push_back(op.gpu_ns);
      ScaleTo(values_, target_ns);
      for (size_t i = 0; i < ops.size(); ++i) ops[i].gpu_ns = values_[i];
    }
    BookOps(cb_number, ops);
    if (cb.gpu_ns > target_ns) BookRemainder(cb_number, cb.gpu_ns - target_ns);
  }

  void BookOps(uint32_t cb_number, std::span<const PendingOp> ops) {
    const Attribution& of_cb = attributions_[cb_number];
    for (const PendingOp& op : ops) {
      const bool stamped = op.scope != kNone;
      const uint32_t node = tree_.NodeOf(stamped ? op.scope : of_cb.scope);
      AddTime(node, stamped ? Method::kExact : of_cb.method, op.op, op.precision, op.gpu_ns, op.count);
    }
  }

  void BookRemainder(uint32_t cb_number, uint64_t gpu_ns) {
    const Attribution& of_cb = attributions_[cb_number];
    if (no_detail_op_ == kNone) no_detail_op_ = Intern({.name = event::Text(kNoOpDetail)});
    AddTime(tree_.NodeOf(of_cb.scope), of_cb.method, no_detail_op_, kPrecisionNoDetail, gpu_ns, 1);
  }

  void AddTime(uint32_t node, Method method, uint32_t op, size_t precision, uint64_t gpu_ns, uint64_t count) {
    uint32_t& row = row_of_[static_cast<uint64_t>(node) << 32 | op];
    if (row == kNone) {
      row = static_cast<uint32_t>(rows_.size());
      rows_.push_back({node, op, 0, 0, {}});
    }
    OpTotal& total = rows_[row];
    total.gpu_ns += gpu_ns;
    total.count += count;
    total.precision_ns[precision] += gpu_ns;
    breakdown_.nodes[node].gpu_ns_self += gpu_ns;
    breakdown_.precision_ns[precision] += gpu_ns;
    breakdown_.diagnostics.method_ns[static_cast<size_t>(method)] += gpu_ns;
  }

  // Readers hand out the texts of a kernel at the same place again and again; within a batch, while all its
  // texts live, the place tells the text.
  uint32_t OpOf(const event::OpSample& op) {
    const std::string_view symbol = op.symbol.view;
    const std::string_view name = op.name.view;
    const auto place =
        reinterpret_cast<uintptr_t>(name.data()) ^ reinterpret_cast<uintptr_t>(symbol.data()) >> 3;
    KnownOp& known = known_[(place ^ place >> 9) % known_.size()];
    const bool same = known.batch == batch_ && known.name.data() == name.data() &&
                      known.name.size() == name.size() && known.symbol.data() == symbol.data() &&
                      known.symbol.size() == symbol.size();
    if (!same) known = {batch_, name, symbol, Intern(op)};
    return known.op;
  }

  uint32_t Intern(const event::OpSample& op) {
    const uint32_t symbol = texts_.Intern(op.symbol.view);
    const uint32_t name = texts_.Intern(op.name.view);
    uint32_t& number = op_of_[static_cast<uint64_t>(symbol) << 32 | name];
    if (number == kNone) {
      number = static_cast<uint32_t>(ops_.size());
      ops_.push_back({symbol, name, op.type});
    }
    return number;
  }

  // Only scopes that are in the session can own time.
  uint32_t ScopeOf(uint32_t pid, event::ScopeId id) const {
    if (id == event::ScopeId{}) return kNone;
    const uint32_t scope = timeline_.FindScope(pid, id);
    return scope != kNone && timeline_.scopes()[scope].entered ? scope : kNone;
  }

  void CountCbs() {
    for (uint32_t i = 0; i < timeline_.cbs().size(); ++i) {
      const CommandBuffer& cb = timeline_.cbs()[i];
      if (!cb.completed) continue;
      const Attribution& attribution = attributions_[i];
      ++breakdown_.nodes[tree_.NodeOf(attribution.scope)].cb_count;
      ++breakdown_.diagnostics.method_cbs[static_cast<size_t>(attribution.method)];
      if (attribution.method == Method::kUnscoped) {
        ++breakdown_.diagnostics.unscoped_cbs[static_cast<size_t>(attribution.reason)];
      }
      breakdown_.gpu_ns += cb.gpu_ns;
      breakdown_.gpu_ns_raw += cb.span_ns();
      if (cb.time_source == event::TimeSource::kHost) breakdown_.host_timed_ns += cb.gpu_ns;
    }
  }

  void CountEvals() {
    for (const Eval& eval : timeline_.evals()) ++breakdown_.nodes[tree_.NodeOf(eval.scope)].eval_count;
  }

  void CopyTotals() {
    const auto& method_ns = breakdown_.diagnostics.method_ns;
    breakdown_.exact_ns = method_ns[static_cast<size_t>(Method::kExact)];
    breakdown_.unscoped_ns = method_ns[static_cast<size_t>(Method::kUnscoped)];
    for (const Method method : {Method::kEval, Method::kScope, Method::kEvalGrace, Method::kScopeGrace}) {
      breakdown_.window_ns += method_ns[static_cast<size_t>(method)];
    }
    breakdown_.wall_ns = timeline_.range().end_ns - timeline_.range().begin_ns;
    breakdown_.cbs = timeline_.counts();
    breakdown_.loss = timeline_.loss();
    for (const Queue& queue : timeline_.queues()) {
      breakdown_.queues.push_back({timeline_.processes()[queue.process].pid, queue.queue_id,
                                   std::string(timeline_.texts()[queue.label]), queue.gpu_ns,
                                   queue.last_end_ns - queue.first_start_ns});
    }
    std::sort(breakdown_.queues.begin(), breakdown_.queues.end(), [](const QueueTime& a, const QueueTime& b) {
      if (a.gpu_ns != b.gpu_ns) return a.gpu_ns > b.gpu_ns;
      return std::tie(a.pid, a.queue_id) < std::tie(b.pid, b.queue_id);
    });
  }

  void MakeOpRows() {
    std::vector<std::string> kinds;
    kinds.reserve(ops_.size());
    for (const OpName& op : ops_) kinds.emplace_back(KindOfOp(texts_[op.symbol], op.type));
    for (const OpTotal& total : rows_) {
      const OpName& op = ops_[total.op];
      OpRow& row = breakdown_.nodes[total.node].ops.emplace_back();
      row.name = texts_[op.name];
      row.symbol = texts_[op.symbol];
      row.kind = kinds[total.op];
      row.gpu_ns = total.gpu_ns;
      row.count = total.count;
      row.precision_ns = total.precision_ns;
    }
    for (Node& node : breakdown_.nodes) {
      if (options_.group_by == GroupBy::kKind) node.ops = GroupOps(std::move(node.ops), GroupBy::kKind);
      SortOps(node.ops);
    }
  }

  const BreakdownOptions& options_;
  Breakdown& breakdown_;
  const Timeline timeline_;
  const BlockVector<Attribution> attributions_;
  ScopeTree tree_;
  std::vector<bool> settled_;  // CBs whose time is booked.
  std::unordered_map<uint32_t, std::vector<PendingOp>> partial_;
  StringTable texts_;
  std::vector<OpName> ops_;
  KeyIndex op_of_;
  std::vector<OpTotal> rows_;
  KeyIndex row_of_;
  uint32_t no_detail_op_ = kNone;
  uint64_t batch_ = 0;
  std::array<KnownOp, 256> known_;
  std::vector<PendingOp> buffer_;  // Reused by OnOps.
  std::vector<uint64_t> values_;   // Reused by Book.
};

std::string_view Trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

}  // namespace

Result<FieldFilter> ParseFieldFilter(std::string_view text) {
  const size_t equals = text.find('=');
  if (equals == std::string_view::npos || Trimmed(text.substr(0, equals)).empty()) {
    return Fail(ErrorCode::kInvalidArgument, "--field wants key=value, for example --field layer=3");
  }
  return FieldFilter{std::string(Trimmed(text.substr(0, equals))),
                     std::string(Trimmed(text.substr(equals + 1)))};
}

Breakdown ComputeBreakdown(const EventSource& source, const BreakdownOptions& options) {
  Breakdown breakdown;
  const Accumulator accumulator(source, options, breakdown);
  ApplyFilters(options.filters, breakdown);
  FinishTree(breakdown);
  AddNotices(accumulator.timeline(), breakdown);
  return breakdown;
}

std::vector<OpRow> FlatOps(const Breakdown& breakdown, GroupBy group_by) {
  std::vector<OpRow> all;
  for (const Node& node : breakdown.nodes) all.insert(all.end(), node.ops.begin(), node.ops.end());
  return GroupOps(std::move(all), group_by);
}

namespace {

// Of equal ones those that stand first.
void KeepLargest(const std::vector<Node>& nodes, size_t count, std::vector<uint32_t>& candidates) {
  std::vector<std::pair<uint64_t, size_t>> order;  // Time, position.
  order.reserve(candidates.size());
  for (const uint32_t at : candidates) order.emplace_back(nodes[at].gpu_ns_subtree, order.size());
  std::sort(order.begin(), order.end(), [](const auto& a, const auto& b) {
    return a.first != b.first ? a.first > b.first : a.second < b.second;
  });
  order.resize(count);
  std::vector<uint32_t> kept;
  kept.reserve(count);
  for (const auto& [time_ns, position] : order) kept.push_back(candidates[position]);
  candidates = std::move(kept);
}

}  // namespace

ShownTree SelectNodes(const Breakdown& breakdown, const TreeLimits& limits) {
  const std::vector<Node>& nodes = breakdown.nodes;
  // In the order of the tree, so that of equal nodes the upper one stays.
  std::vector<uint32_t> candidates;
  std::vector<uint32_t> stack{ScopeTree::kRootNode};
  while (!stack.empty()) {
    const uint32_t at = stack.back();
    stack.pop_back();
    if (at != ScopeTree::kRootNode) candidates.push_back(at);
    stack.insert(stack.end(), nodes[at].children.rbegin(), nodes[at].children.rend());
  }
  const size_t all = candidates.size();
  if (limits.depth) {
    std::erase_if(candidates, [&](uint32_t i) { return nodes[i].depth > uint64_t{*limits.depth} + 1; });
  }
  if (limits.top && candidates.size() > *limits.top) {
    KeepLargest(nodes, *limits.top, candidates);
  }
  ShownTree result{std::vector<bool>(nodes.size()), all};
  result.shown[ScopeTree::kRootNode] = true;
  for (uint32_t at : candidates) {
    for (; !result.shown[at]; at = nodes[at].parent) {
      result.shown[at] = true;
      --result.nodes_cut;
    }
  }
  return result;
}

}  // namespace smeltr::analysis
