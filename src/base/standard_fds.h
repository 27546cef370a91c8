// For the start of main(): the numbers 0 to 2 taken, so that no file opened later becomes a standard stream.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

namespace smeltr {

// Each of 0, 1 and 2 that is closed becomes /dev/null, opened the wrong way round: using it still fails as on
// the closed one. A program executed later finds it closed again.
inline void OccupyStandardFds() {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    if (::fcntl(fd, F_GETFD) >= 0 || errno != EBADF) continue;
    // The lowest free number is this one: those below are taken.
    const int mode = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", mode | O_CLOEXEC) < 0) return;
  }
}

}  // namespace smeltr
