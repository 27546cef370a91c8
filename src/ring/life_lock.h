// How a ring tells that the process that made it lives, also to a daemon that cannot see that process: one of
// another PID namespace has no entry in the daemon's /proc, or somebody else's. The creator holds a record
// lock (fcntl) on its ring file. It is not inherited by fork, and gone when the process is, or replaces
// itself.
//
// Any close of any descriptor of the file in that process gives the lock up: nothing else there may open it.
// A program that closes descriptors it does not know does so as well. Hence a missing lock alone proves
// nothing; together with what /proc says it does.
#pragma once

#include <sys/types.h>

#include "base/fd.h"

namespace smeltr::ring {

// `file` under a number that programs seldom use and never expect to be free, closed on exec, with the lock.
// Without the lock where the file system has none.
Fd TakeLifeLock(Fd file);

// Whether another process holds the lock. False in the holder itself.
bool IsLifeLocked(int file);

// A descriptor that a forked child has from its parent. The number may stand for another file by now.
struct LockedFile {
  int fd = -1;
  dev_t device = 0;
  ino_t inode = 0;
};
LockedFile Remember(int fd);
// Closes it if it is still the same file. For fork handlers.
void CloseInherited(const LockedFile& file);

}  // namespace smeltr::ring
