#include "analysis/breakdown.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

#include "fake/session_builder.h"

namespace smeltr::analysis {
namespace {

// Everything that must hold for any session whatever.
void ExpectInvariants(const Breakdown& breakdown) {
  uint64_t self_ns = 0;
  uint64_t ops_ns = 0;
  uint64_t precision_ns = 0;
  for (const Node& node : breakdown.nodes) {
    self_ns += node.gpu_ns_self;
    uint64_t node_ops_ns = 0;
    for (const OpRow& op : node.ops) {
      node_ops_ns += op.gpu_ns;
      uint64_t shares = 0;
      for (const uint64_t share : op.precision_ns) shares += share;
      EXPECT_EQ(shares, op.gpu_ns) << op.name;
    }
    EXPECT_EQ(node_ops_ns, node.gpu_ns_self) << node.qualname;
    ops_ns += node_ops_ns;
  }
  for (const uint64_t share : breakdown.precision_ns) precision_ns += share;
  EXPECT_EQ(self_ns, breakdown.nodes[0].gpu_ns_subtree);
  EXPECT_EQ(ops_ns, breakdown.nodes[0].gpu_ns_subtree);
  if (!breakdown.filtered) {
    EXPECT_EQ(breakdown.nodes[0].gpu_ns_subtree, breakdown.gpu_ns);
  }
  EXPECT_EQ(breakdown.exact_ns + breakdown.window_ns + breakdown.unscoped_ns, breakdown.gpu_ns);
  EXPECT_EQ(precision_ns, breakdown.gpu_ns);
  uint64_t queues_ns = 0;
  for (const QueueTime& queue : breakdown.queues) {
    EXPECT_LE(queue.gpu_ns, queue.span_ns);
    queues_ns += queue.gpu_ns;
  }
  EXPECT_EQ(queues_ns, breakdown.gpu_ns);
}

Breakdown Of(std::string_view text, const BreakdownOptions& options = {}) {
  const fake::SessionBuilder session(text);
  Breakdown breakdown = ComputeBreakdown(session, options);
  ExpectInvariants(breakdown);
  return breakdown;
}

// "a/b" -> the node b under a under the root; the test fails when there is none.
const Node& At(const Breakdown& breakdown, std::string_view path) {
  static const Node kNothing;
  const Node* at = &breakdown.nodes[0];
  while (!path.empty()) {
    const std::string_view name = path.substr(0, path.find('/'));
    const Node* next = nullptr;
    for (const uint32_t child : at->children) {
      if (breakdown.nodes[child].qualname == name) next = &breakdown.nodes[child];
    }
    if (next == nullptr) {
      ADD_FAILURE() << "no node " << name;
      return kNothing;
    }
    at = next;
    path.remove_prefix(std::min(name.size() + 1, path.size()));
  }
  return *at;
}

TEST(Breakdown, OpsGoWhereTheyWereEncoded) {
  const Breakdown b =
      Of("10 scope+ 1 step\n11 scope+ 2 mlp parent=1\n12 scope- 2\n20 commit 7 scope=1\n30 scope- 1\n"
         "90 done 7 gpu=40..90\n90 ops 7 matmul:30x3@2 add:15 copy:5@2\n");
  EXPECT_EQ(b.gpu_ns, 50U);
  EXPECT_EQ(b.exact_ns, 50U);
  EXPECT_EQ(At(b, "step").gpu_ns_self, 15U);
  EXPECT_EQ(At(b, "step").gpu_ns_subtree, 50U);
  EXPECT_EQ(At(b, "step").cb_count, 1U);
  ASSERT_EQ(At(b, "step/mlp").ops.size(), 2U);
  EXPECT_EQ(At(b, "step/mlp").ops[0].symbol, "matmul");
  EXPECT_EQ(At(b, "step/mlp").ops[0].kind, "Matmul");
  EXPECT_EQ(At(b, "step/mlp").ops[0].count, 3U);
}

TEST(Breakdown, SiblingsWithOneNameAndFieldsAreOneRow) {
  constexpr auto kText =
      "1 scope+ 1 layer .i=0\n2 scope- 1\n3 scope+ 2 layer .i=0\n4 scope- 2\n5 scope+ 3 layer .i=1\n6 scope- "
      "3\n"
      "2 commit 1 scope=1\n4 commit 2 scope=2\n6 commit 3 scope=3\n"
      "20 done 1 gpu=10..20\n40 done 2 gpu=20..40\n80 done 3 gpu=40..80\n";
  const Breakdown merged = Of(kText);
  ASSERT_EQ(merged.nodes[0].children.size(), 2U);
  const Node& first = merged.nodes[merged.nodes[0].children[0]];
  EXPECT_EQ(first.gpu_ns_subtree, 40U);
  const Node& second = merged.nodes[merged.nodes[0].children[1]];
  EXPECT_EQ(second.calls, 2U);
  EXPECT_EQ(second.gpu_ns_subtree, 30U);

  const Breakdown raw = Of(kText, {.per_call = true});
  EXPECT_EQ(raw.nodes[0].children.size(), 3U);
}

TEST(Breakdown, ManySetsOfFieldsAtOnePlaceAreOneRow) {
  std::string text;
  for (int step = 0; step < 40; ++step) {
    const std::string at = std::to_string(step * 10);
    const std::string id = std::to_string(step * 2 + 1);
    const std::string layer = std::to_string(step * 2 + 2);
    text += at + " scope+ " + id + " step .n=" + at + " .mode=decode\n";
    text += at + " scope+ " + layer + " layer parent=" + id + " .i=" + std::to_string(step % 2) + "\n";
    text += at + " commit " + id + " scope=" + layer + "\n";
    text += at + " done " + id + " gpu=" + at + ".." + std::to_string(step * 10 + 5) + "\n";
    text += at + " scope- " + layer + "\n" + at + " scope- " + id + "\n";
  }
  const Breakdown merged = Of(text);
  ASSERT_EQ(merged.nodes[0].children.size(), 1U);
  const Node& step = merged.nodes[merged.nodes[0].children[0]];
  EXPECT_EQ(step.calls, 40U);
  EXPECT_EQ(step.varied_fields, (std::vector<std::string>{"n"}));
  ASSERT_EQ(step.fields.size(), 1U);
  EXPECT_EQ(step.fields[0].text, "decode");
  ASSERT_EQ(step.children.size(), 2U) << "two sets of fields stay apart";
  EXPECT_EQ(merged.nodes[step.children[0]].calls, 20U);

  EXPECT_EQ(Of(text, {.by_fields = true}).nodes[0].children.size(), 40U);
  BreakdownOptions one_step;
  one_step.filters = {*ParseFieldFilter("n=30")};
  EXPECT_EQ(Of(text, one_step).nodes[0].gpu_ns_subtree, 5U);
}

TEST(Breakdown, OverlapOnOneQueueIsCountedOnce) {
  const Breakdown b =
      Of("1 commit 1\n2 commit 2\n3 commit 3\n"
         "900 done 1 gpu=0..900\n1000 done 2 gpu=600..1000\n1000 done 3 gpu=100..800\n"
         "900 ops 1 a:900\n1000 ops 2 b:300 c:100\n1000 ops 3 d:700\n");
  EXPECT_EQ(b.gpu_ns, 1000U);
  EXPECT_EQ(b.gpu_ns_raw, 2000U);
  EXPECT_EQ(b.cbs.clipped, 2U);
  const auto rows = FlatOps(b, GroupBy::kName);
  ASSERT_EQ(rows.size(), 4U);
  EXPECT_EQ(rows[0].gpu_ns, 900U);
  EXPECT_EQ(rows[1].gpu_ns, 75U);
  EXPECT_EQ(rows[2].gpu_ns, 25U);
  EXPECT_EQ(rows[3].gpu_ns, 0U);
}

TEST(Breakdown, QueuesAndProcessesDoNotLimitEachOther) {
  const Breakdown b =
      Of("1 commit 1 q=1\n1 commit 2 q=2\n1 commit 1 q=1 pid=200\n"
         "900 done 1 q=1 gpu=0..900\n900 done 2 q=2 gpu=0..900\n900 done 1 q=1 gpu=0..900 pid=200\n");
  EXPECT_EQ(b.gpu_ns, 2700U);
  EXPECT_EQ(b.cbs.clipped, 0U);
  EXPECT_EQ(b.queues.size(), 3U);
}

TEST(Breakdown, OpListsMayComeInParts) {
  const Breakdown b = Of("1 commit 1\n100 done 1 gpu=0..100\n100 ops 1 a:40\n100 ops 1 b:60\n");
  EXPECT_EQ(b.diagnostics.cbs_ops_rescaled, 0U);
  const auto rows = FlatOps(b, GroupBy::kName);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].gpu_ns, 60U);
  EXPECT_EQ(rows[1].gpu_ns, 40U);
}

TEST(Breakdown, OpListsThatDoNotAddUpAreScaledDownNeverUp) {
  const Breakdown more = Of("1 commit 1\n100 done 1 gpu=0..100\n100 ops 1 a:300 b:100\n");
  EXPECT_EQ(FlatOps(more, GroupBy::kName)[0].gpu_ns, 75U);
  EXPECT_EQ(more.diagnostics.cbs_ops_rescaled, 1U);

  const Breakdown less = Of("1 commit 1\n100 done 1 gpu=0..100\n100 ops 1 a:30\n");
  const auto rows = FlatOps(less, GroupBy::kName);
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].name, kNoOpDetail);
  EXPECT_EQ(rows[0].gpu_ns, 70U);
  EXPECT_EQ(rows[1].gpu_ns, 30U);
}

TEST(Breakdown, TimeWithoutOpsHasARowOfItsOwn) {
  const Breakdown b = Of("0 scope+ 1 a\n1 commit 1 scope=1\n2 scope- 1\n100 done 1 gpu=50..100\n");
  ASSERT_EQ(At(b, "a").ops.size(), 1U);
  EXPECT_EQ(At(b, "a").ops[0].name, kNoOpDetail);
  EXPECT_EQ(b.precision_ns[kPrecisionNoDetail], 50U);
  EXPECT_EQ(b.diagnostics.cbs_without_ops, 1U);
}

TEST(Breakdown, UnknownCbsTakeNoTime) {
  const Breakdown b = Of("1 commit 1\n2 ops 9 a:50\n3 ops 1 b:50\n");
  EXPECT_EQ(b.gpu_ns, 0U);
  EXPECT_EQ(b.diagnostics.orphan_ops, 2U);
  EXPECT_EQ(b.cbs.incomplete, 1U);
}

TEST(Breakdown, HostTimesAreUpperBoundsAndSaySo) {
  const Breakdown b = Of("0 commit 1\n10 commit 2\n100 done 1 inflight=100\n150 done 2 inflight=140\n");
  EXPECT_EQ(b.gpu_ns, 150U) << "queue wait behind the first must not count twice";
  EXPECT_EQ(b.host_timed_ns, 150U);
  EXPECT_EQ(b.cbs.host_timed, 2U);
  bool told = false;
  for (const Notice& notice : b.notices) told = told || notice.code == "host_timed";
  EXPECT_TRUE(told);
}

TEST(Breakdown, AbandonedWorkNeverRan) {
  const Breakdown b =
      Of("0 commit 1\n100 done 1 inflight=100 abandoned\n0 commit 2\n90 done 2 gpu=50..90 error=-4\n");
  EXPECT_EQ(b.gpu_ns, 40U);
  EXPECT_EQ(b.cbs.abandoned, 1U);
  EXPECT_EQ(b.cbs.failed, 1U);
}

TEST(Breakdown, CompletionWithoutCommitStillCounts) {
  const Breakdown b = Of("100 done 1 gpu=50..90\n");
  EXPECT_EQ(b.gpu_ns, 40U);
  EXPECT_EQ(b.unscoped_ns, 40U);
  EXPECT_EQ(b.cbs.commit_lost, 1U);
}

TEST(Breakdown, EventOrderDoesNotMatter) {
  const Breakdown b =
      Of("90 ops 7 matmul:50@2\n90 done 7 gpu=40..90\n12 scope- 2\n11 scope+ 2 mlp parent=1\n20 commit 7 "
         "scope=2\n"
         "30 scope- 1\n10 scope+ 1 step\n");
  EXPECT_EQ(At(b, "step/mlp").gpu_ns_self, 50U);
}

TEST(Breakdown, LostParentsAndCyclesHangUnderTheRoot) {
  const Breakdown b =
      Of("1 scope+ 2 child parent=1\n2 commit 7 scope=2\n3 scope- 2\n50 done 7 gpu=10..50\n"
         "4 scope+ 5 x parent=6\n5 scope+ 6 y parent=5\n6 scope+ 8 self parent=8\n");
  EXPECT_EQ(At(b, "child").gpu_ns_subtree, 40U);
  EXPECT_EQ(b.diagnostics.lost_parents, 3U);
  EXPECT_EQ(b.diagnostics.open_at_end, 3U);
}

TEST(Breakdown, ReturnsOfUnknownScopesAreOnlyCounted) {
  const Breakdown b =
      Of("10 scope+ 1 a\n20 scope+ 2 b\n30 scope- 1\n40 scope- 2\n41 scope- 2\n50 scope- 99\n");
  EXPECT_EQ(b.diagnostics.orphan_returns, 1U);
  EXPECT_EQ(b.diagnostics.open_at_end, 0U);
}

TEST(Breakdown, VeryDeepScopesAreFolded) {
  std::string text;
  for (int i = 1; i <= 1000; ++i) {
    text += std::to_string(i) + " scope+ " + std::to_string(i) + " s parent=" + std::to_string(i - 1) + "\n";
  }
  const Breakdown b = Of(text + "2000 commit 1 scope=1000\n3000 done 1 gpu=2500..3000\n");
  EXPECT_EQ(b.diagnostics.depth_folded, 1000U - kMaxTreeDepth);
  EXPECT_EQ(b.nodes.back().depth, kMaxTreeDepth);
  EXPECT_EQ(b.nodes.back().gpu_ns_self, 500U);
}

TEST(Breakdown, TwoProcessesWithEqualIdsDoNotMix) {
  const Breakdown b =
      Of("1 scope+ 1 a\n2 commit 1 scope=1\n9 scope- 1\n1 scope+ 1 b pid=200\n2 commit 1 scope=1 pid=200\n"
         "9 scope- 1 pid=200\n30 done 1 gpu=10..30\n40 done 1 gpu=10..40 pid=200\n30 ops 1 x:20@1\n40 ops 1 "
         "y:30@1 pid=200\n");
  EXPECT_EQ(At(b, "a").gpu_ns_self, 20U);
  EXPECT_EQ(At(b, "b").gpu_ns_self, 30U);
}

TEST(Breakdown, DroppedEventsAndSkipsAreTold) {
  const Breakdown b =
      Of("1 dropped CbOps 12\n2 dropped CbCommitted 3\n3 storage 5 disk full\n4 skipped no_timestamps 3\n"
         "5 skipped no_timestamps 8\n6 skipped no_timestamps 2 pid=200\n");
  EXPECT_EQ(b.loss.dropped_count, 15U);
  EXPECT_EQ(b.loss.storage_lost_count, 5U);
  ASSERT_EQ(b.loss.skips.size(), 1U);
  EXPECT_EQ(b.loss.skips[0].count, 10U) << "a running count a process";
}

TEST(Breakdown, EmptySessionIsAnEmptyTree) {
  const Breakdown b = Of("");
  EXPECT_EQ(b.gpu_ns, 0U);
  EXPECT_TRUE(b.nodes[0].children.empty());
}

TEST(Breakdown, PrecisionIsSummedByClass) {
  const Breakdown b =
      Of("1 commit 1\n100 done 1 gpu=0..100\n100 ops 1 a:10 b:20!group a:30!profile c:40!uniform\n");
  EXPECT_EQ(b.precision_ns, (std::array<uint64_t, kPrecisions>{10, 20, 30, 40, 0}));
}

TEST(Breakdown, FieldFilterKeepsSubtreesAndSaysOfWhat) {
  constexpr auto kText =
      "1 scope+ 1 step\n2 scope+ 2 layer parent=1 .i=3 .w=1.0\n3 scope+ 4 mlp parent=2\n3 scope- 4\n4 scope- "
      "2\n"
      "5 scope+ 3 layer parent=1 .i=4\n6 scope- 3\n7 scope- 1\n8 commit 1 scope=1\n"
      "100 done 1 gpu=0..100\n100 ops 1 a:10 b:20@2 c:30@3 d:40@4\n";
  BreakdownOptions options;
  options.filters = {*ParseFieldFilter(" i = 3 "), *ParseFieldFilter("w=1")};
  const Breakdown b = Of(kText, options);
  EXPECT_EQ(b.gpu_ns, 100U);
  EXPECT_EQ(b.nodes[0].gpu_ns_subtree, 60U);
  EXPECT_EQ(At(b, "step").gpu_ns_self, 0U);
  EXPECT_EQ(At(b, "step/layer").gpu_ns_subtree, 60U);
  EXPECT_EQ(At(b, "step/layer/mlp").gpu_ns_self, 40U);

  options.filters = {*ParseFieldFilter("i=9")};
  EXPECT_EQ(Of(kText, options).nodes[0].gpu_ns_subtree, 0U);
  EXPECT_FALSE(ParseFieldFilter("nothing").has_value());
  EXPECT_FALSE(ParseFieldFilter(" =3").has_value());
}

TEST(SelectNodes, TopBringsAncestorsAndCountsTheRest) {
  const Breakdown b =
      Of("1 scope+ 1 a\n2 scope+ 2 b parent=1\n3 scope+ 3 c parent=2\n4 scope+ 4 d\n5 scope+ 5 e\n"
         "8 commit 1 scope=1\n100 done 1 gpu=0..100\n100 ops 1 x:50@3 y:30@4 z:20@5\n");
  const ShownTree top = SelectNodes(b, {.top = 4});
  EXPECT_EQ(top.nodes_cut, 1U);
  const ShownTree depth = SelectNodes(b, {.depth = 0});
  EXPECT_EQ(depth.nodes_cut, 2U);
  const ShownTree all = SelectNodes(b, {});
  EXPECT_EQ(all.nodes_cut, 0U);
}

}  // namespace
}  // namespace smeltr::analysis
