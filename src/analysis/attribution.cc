#include "analysis/attribution.h"

#include <array>
#include <optional>

#include "analysis/windows.h"

namespace smeltr::analysis {
namespace {

Attribution ByWindow(const Windows& windows, const CommandBuffer& cb, uint32_t process) {
  for (const Layer layer : {Layer::kEval, Layer::kScope, Layer::kGrace}) {
    const Windows::Hit hit = windows.At(layer, process, cb.thread, cb.commit_ns);
    if (hit.ambiguous) return {kNone, Method::kUnscoped, UnscopedReason::kAmbiguousThread};
    if (hit.scope == kNone) continue;
    if (layer == Layer::kEval) return {hit.scope, Method::kEval, UnscopedReason::kAttributed};
    if (layer == Layer::kScope) return {hit.scope, Method::kScope, UnscopedReason::kAttributed};
    return {hit.scope, hit.by_eval ? Method::kEvalGrace : Method::kScopeGrace, UnscopedReason::kAttributed};
  }
  const Windows::Hit lazy = windows.At(Layer::kLazyEval, process, cb.thread, cb.commit_ns);
  if (lazy.by_eval || lazy.ambiguous) return {kNone, Method::kUnscoped, UnscopedReason::kLazyEval};
  if (cb.scope != kNone) return {kNone, Method::kUnscoped, UnscopedReason::kUnknownScope};
  if (!windows.Any(process)) return {kNone, Method::kUnscoped, UnscopedReason::kNoInstrumentation};
  return {kNone, Method::kUnscoped, UnscopedReason::kOutsideWindows};
}

}  // namespace

std::string_view Name(Method method) {
  static constexpr std::array<std::string_view, kMethods> kNames{"exact",      "eval",        "scope",
                                                                 "eval_grace", "scope_grace", "unscoped"};
  return kNames[static_cast<size_t>(method)];
}

std::string_view Name(UnscopedReason reason) {
  static constexpr std::array<std::string_view, kUnscopedReasons> kNames{
      "attributed",    "no_instrumentation", "outside_windows",
      "unknown_scope", "lazy_eval",          "ambiguous_thread"};
  return kNames[static_cast<size_t>(reason)];
}

BlockVector<Attribution> Attribute(const Timeline& timeline) {
  BlockVector<Attribution> result;
  std::optional<Windows> windows;  // Only sessions with unstamped work need them.
  for (size_t i = 0; i < timeline.cbs().size(); ++i) {
    const CommandBuffer& cb = timeline.cbs()[i];
    Attribution& attribution = result.Append();
    if (cb.scope != kNone && timeline.scopes()[cb.scope].entered) {
      attribution = {cb.scope, Method::kExact, UnscopedReason::kAttributed};
      continue;
    }
    if (!windows) windows.emplace(timeline);
    attribution = ByWindow(*windows, cb, timeline.queues()[cb.queue].process);
  }
  return result;
}

}  // namespace smeltr::analysis
