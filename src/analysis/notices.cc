#include "analysis/notices.h"

#include <fmt/format.h>

#include <algorithm>

#include "util/format.h"

namespace smeltr::analysis {
namespace {

void AddLosses(Breakdown& breakdown) {
  if (breakdown.loss.dropped_count > 0) {
    breakdown.notices.push_back(
        {"events_dropped",
         fmt::format("{} lost because a ring was full: totals are lower bounds.",
                     FormatCounted(breakdown.loss.dropped_count, "event was", "events were"))});
  }
  if (breakdown.loss.storage_lost_count > 0) {
    breakdown.notices.push_back({"storage_lost", fmt::format("{} lost because the disk would not take them.",
                                                             FormatCounted(breakdown.loss.storage_lost_count,
                                                                           "event was", "events were"))});
  }
}

void AddScopeNotices(const Timeline& timeline, Breakdown& breakdown) {
  if (breakdown.cbs.completed == 0) return;
  if (breakdown.scope_calls == 0 && timeline.evals().empty() && !timeline.has_sidecar()) {
    breakdown.notices.push_back(
        {"no_scopes",
         "The program opened no scopes, so all GPU time is <unscoped>: kernels are still listed. Scopes come "
         "from "
         "smeltr/smeltr.h (smeltr_scope_push/pop), debug labels or the Python package."});
    return;
  }
  const auto lazy = breakdown.diagnostics.unscoped_cbs[static_cast<size_t>(UnscopedReason::kLazyEval)];
  if (lazy > 0 && breakdown.unscoped_ns * 2 >= breakdown.gpu_ns && breakdown.gpu_ns > 0) {
    breakdown.notices.push_back(
        {"lazy_eval",
         fmt::format("{} % of GPU time ran in evals outside every scope: put the eval inside the scope "
                     "of the stage it belongs to.",
                     FormatPercent(breakdown.unscoped_ns, breakdown.gpu_ns))});
  }
}

void AddTimeNotices(Breakdown& breakdown) {
  if (breakdown.host_timed_ns > 0) {
    breakdown.notices.push_back(
        {"host_timed",
         fmt::format("{} % of GPU time comes from the host's clock, for lack of GPU timestamps: it is an "
                     "upper bound.",
                     FormatPercent(breakdown.host_timed_ns, breakdown.gpu_ns))});
  }
  if (breakdown.cbs.clipped > 0 && breakdown.gpu_ns_raw > breakdown.gpu_ns) {
    breakdown.notices.push_back(
        {"overlap", fmt::format("{} overlapped an earlier one of its queue; {} counted once, not twice.",
                                FormatCounted(breakdown.cbs.clipped, "command buffer"),
                                FormatDuration(breakdown.gpu_ns_raw - breakdown.gpu_ns))});
  }
}

void AddCbNotices(Breakdown& breakdown) {
  const CbCounts& cbs = breakdown.cbs;
  if (cbs.incomplete > 0) {
    breakdown.notices.push_back(
        {"cbs_incomplete",
         fmt::format("{} never completed and {} no time here; `smeltr sessions show` lists them.",
                     FormatCounted(cbs.incomplete, "command buffer"), cbs.incomplete == 1 ? "has" : "have")});
  }
  if (cbs.untimed > 0) {
    breakdown.notices.push_back(
        {"cbs_untimed",
         fmt::format(
             "{} completed at a time that is not in the session and {} no time here: totals are lower "
             "bounds.",
             FormatCounted(cbs.untimed, "command buffer"), cbs.untimed == 1 ? "has" : "have")});
  }
  if (cbs.cut_away > 0) {
    breakdown.notices.push_back(
        {"cbs_cut_away",
         fmt::format("{} {} no time here: what became of {} is in the part of the session that was cut away.",
                     FormatCounted(cbs.cut_away, "command buffer"), cbs.cut_away == 1 ? "has" : "have",
                     cbs.cut_away == 1 ? "it" : "them")});
  }
  if (cbs.failed > 0) {
    breakdown.notices.push_back(
        {"cbs_failed", fmt::format("{} failed on the GPU.", FormatCounted(cbs.failed, "command buffer"))});
  }
  if (breakdown.diagnostics.depth_folded > 0) {
    breakdown.notices.push_back(
        {"depth_folded",
         fmt::format("{} nested deeper than {} levels; they are counted with their ancestors.",
                     FormatCounted(breakdown.diagnostics.depth_folded, "scope is", "scopes are"),
                     kMaxTreeDepth)});
  }
}

void AddMergedFields(Breakdown& breakdown) {
  const auto merged = std::find_if(breakdown.nodes.begin(), breakdown.nodes.end(),
                                   [](const Node& node) { return !node.varied_fields.empty(); });
  if (merged == breakdown.nodes.end()) return;
  breakdown.notices.push_back(
      {"fields_merged",
       fmt::format("`=*` marks scopes merged over more than {} sets of fields, such as {}: --by-fields "
                   "keeps them apart, --field {}=VALUE picks one.",
                   kMaxFieldSets, Printable(merged->qualname), Printable(merged->varied_fields.front()))});
}

void AddSkips(Breakdown& breakdown) {
  for (const Skip& skip : breakdown.loss.skips) {
    const std::string detail = skip.detail.empty() ? "" : fmt::format(" ({})", Printable(skip.detail));
    breakdown.notices.push_back({fmt::format("skipped_{}", event::EnumName(skip.reason)),
                                 fmt::format("Not captured, {}: {}{}.", FormatCounted(skip.count, "time"),
                                             Describe(skip.reason), detail)});
  }
}

}  // namespace

void AddNotices(const Timeline& timeline, Breakdown& breakdown) {
  AddLosses(breakdown);
  AddScopeNotices(timeline, breakdown);
  AddTimeNotices(breakdown);
  AddCbNotices(breakdown);
  AddMergedFields(breakdown);
  AddSkips(breakdown);
}

std::string_view Describe(event::SkipReason reason) {
  using event::SkipReason;
  switch (reason) {
    case SkipReason::kDisabledByUser:
      return "switched off by the user";
    case SkipReason::kNoTimestamps:
      return "the queue has no timestamps";
    case SkipReason::kSimultaneousUse:
      return "the command buffer may be in flight several times at once, so it cannot hold queries";
    case SkipReason::kReusedRecording:
      return "the command buffer was recorded once and submitted often, so its kernels are not timed one by "
             "one";
    case SkipReason::kResultLost:
      return "a resubmission overwrote timestamps before they were read";
    case SkipReason::kFeatureUnavailable:
      return "the device lacks a needed feature";
    case SkipReason::kCalibration:
      return "GPU timestamps could not be put on the host's clock";
    case SkipReason::kSamplingReduced:
      return "kernels were timed less often to keep the overhead low";
    case SkipReason::kTableFull:
      return "a fixed-size table of the hook was full";
    case SkipReason::kNestedQueries:
      return "secondary or protected command buffers cannot hold queries";
    case SkipReason::kOther:
      break;
  }
  return "another reason";
}

}  // namespace smeltr::analysis
