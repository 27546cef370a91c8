// What a process leaves in the ring directory when it can have no ring: an empty file, for which there is
// room where there is none for a ring. Without it the daemon could not tell such a process from one without a
// GPU.
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"
#include "ring/segment.h"

namespace smeltr::ring {

enum class FailureReason : uint8_t {
  kNoSpace,    // The file system of the ring directory is full.
  kFileLimit,  // The process may not make files of that size (RLIMIT_FSIZE).
  kOther,
};

struct Failure {
  ProcessIdentity process;
  FailureReason reason = FailureReason::kOther;
  friend bool operator==(const Failure&, const Failure&) = default;
};

// For the traced process, after Segment::Create() gave `error`. No heap. Where not even that can be written,
// nothing is.
void LeaveFailure(const char* directory, ErrorCode error);

// "123-4567.no-space.failed"; an error for other names.
Result<Failure> ParseFailureFileName(std::string_view name);

// For people: "no room for its ring", ...
std::string_view Describe(FailureReason reason);

}  // namespace smeltr::ring
