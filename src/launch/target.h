// Which file a command word really starts, and whether what it starts can be hooked.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smeltr::launch {

// The file to execute for `command`, found as the shell would: as it is when it has a slash, else in the
// directories of `path` ($PATH). kNotFound, or kPermission when what is there cannot be executed.
Result<std::string> FindExecutable(std::string_view command, std::string_view path);

// What `executable` ends in: links followed, scripts replaced by their interpreters, `env` by what it
// starts. `path` as above.
std::string FollowToBinary(const std::string& executable, std::string_view path);

struct HookVerdict {
  bool can_load = true;
  std::string reason;  // For the user, when it cannot.
};

// Whether the loader would bring a library of ours into `binary`: not into setuid and setgid programs,
// those with file capabilities, static ones, and those of another machine or C library. What a program
// without a hook starts may still be hooked.
HookVerdict JudgeBinary(const std::string& binary);

}  // namespace smeltr::launch
