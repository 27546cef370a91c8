// Whose a command buffer's GPU time is: exactly known by its stamp, guessed from time windows, or nobody's.
#pragma once

#include <cstdint>
#include <string_view>

#include "analysis/timeline.h"

namespace smeltr::analysis {

// In order of preference; the first that has an answer decides.
enum class Method : uint8_t {
  kExact,       // The scope stamped where it was submitted or encoded.
  kEval,        // Latest-started eval running at the commit.
  kScope,       // Innermost scope open at the commit.
  kEvalGrace,   // Asynchronous eval that returned shortly before.
  kScopeGrace,  // Scope that returned shortly before.
  kUnscoped,
};
inline constexpr size_t kMethods = 6;

enum class UnscopedReason : uint8_t {
  kAttributed,         // Not unscoped.
  kNoInstrumentation,  // Its process has no scopes at all.
  kOutsideWindows,
  kUnknownScope,  // Stamped with a scope whose entry is not in the session.
  kLazyEval,      // Evaluated outside every scope.
  kAmbiguousThread,
};
inline constexpr size_t kUnscopedReasons = 6;

// JSON keys: "exact", "eval", ...; "no_instrumentation", ...
std::string_view Name(Method method);
std::string_view Name(UnscopedReason reason);

struct Attribution {
  uint32_t scope = kNone;
  Method method = Method::kUnscoped;
  UnscopedReason reason = UnscopedReason::kAttributed;
};

// One per CB of the timeline, by its number. CBs that never completed are attributed as well.
BlockVector<Attribution> Attribute(const Timeline& timeline);

}  // namespace smeltr::analysis
