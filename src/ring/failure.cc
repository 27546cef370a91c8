#include "ring/failure.h"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <cstdio>

#include "base/fd.h"

namespace smeltr::ring {
namespace {

constexpr std::string_view kSuffix = ".failed";
// By FailureReason.
constexpr std::array<std::string_view, 3> kNames = {".no-space", ".file-limit", ".other"};

FailureReason ReasonOf(ErrorCode error) {
  if (error == ErrorCode::kNoSpace) return FailureReason::kNoSpace;
  return error == ErrorCode::kUnavailable ? FailureReason::kFileLimit : FailureReason::kOther;
}

}  // namespace

void LeaveFailure(const char* directory, ErrorCode error) {
  const ProcessIdentity self = SelfIdentity();
  const std::string_view reason = kNames[static_cast<size_t>(ReasonOf(error))];
  std::array<char, 96> name;
  std::snprintf(name.data(), name.size(), "%u-%llu%s%s", self.pid,
                static_cast<unsigned long long>(self.start_time_ticks), reason.data(), kSuffix.data());
  const Fd parent(::open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!parent.valid()) return;
  const Fd file(
      ::openat(parent.get(), name.data(), O_WRONLY | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600));
}

Result<Failure> ParseFailureFileName(std::string_view name) {
  for (size_t reason = 0; reason < kNames.size() && name.ends_with(kSuffix); ++reason) {
    std::string_view rest = name.substr(0, name.size() - kSuffix.size());
    if (!rest.ends_with(kNames[reason])) continue;
    rest.remove_suffix(kNames[reason].size());
    SMELTR_ASSIGN_OR_RETURN(const ProcessIdentity process, ParseIdentity(rest));
    return Failure{process, static_cast<FailureReason>(reason)};
  }
  return Fail(ErrorCode::kInvalidArgument, "not the name of a note about a ring");
}

std::string_view Describe(FailureReason reason) {
  switch (reason) {
    case FailureReason::kNoSpace:
      return "no room for its ring";
    case FailureReason::kFileLimit:
      return "it may not make files as large as a ring (ulimit -f)";
    case FailureReason::kOther:
      break;
  }
  return "its ring could not be made";
}

}  // namespace smeltr::ring
