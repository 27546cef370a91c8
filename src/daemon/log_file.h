// The daemon's log: a file that its starter opened as stderr, kept from growing without end.
#pragma once

#include <sys/types.h>

#include <filesystem>

namespace smeltr::daemon {

inline constexpr off_t kLogLimitBytes = 4 << 20;

// When stderr is `file` and that has grown beyond `limit_bytes`: it becomes `file`.1, in place of an earlier
// one, and stderr a new one.
void RotateLog(const std::filesystem::path& file, off_t limit_bytes = kLogLimitBytes);

}  // namespace smeltr::daemon
