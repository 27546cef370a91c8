// The smeltrd of a home, found without asking it: by the lock that it holds (daemon/lifecycle.h).
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

namespace smeltr::launch {

struct LockHolder {
  pid_t pid = 0;
  uint64_t start_time_ticks = 0;
  char state = '?';  // As in ProcessFacts.

  // Waits for a core or for the disk, or uses them: it may answer yet.
  bool works() const { return state == 'R' || state == 'D'; }
  bool stopped() const { return state == 'T' || state == 't'; }
};

// Nothing when nobody holds the lock, or when that cannot be seen: a holder in another PID namespace.
std::optional<LockHolder> FindLockHolder(const std::filesystem::path& lock);

// Whether /proc/locks, in `text`, says that process `pid` holds an exclusive flock of the file `inode`.
bool HoldsLock(std::string_view text, pid_t pid, uint64_t inode);

}  // namespace smeltr::launch
