#include "daemon/log_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

namespace smeltr::daemon {

void RotateLog(const std::filesystem::path& file, off_t limit_bytes) {
  struct stat open_one{};
  if (::fstat(STDERR_FILENO, &open_one) != 0 || !S_ISREG(open_one.st_mode) ||
      open_one.st_size <= limit_bytes) {
    return;
  }
  struct stat named{};
  const bool ours = ::lstat(file.c_str(), &named) == 0 && named.st_dev == open_one.st_dev &&
                    named.st_ino == open_one.st_ino;
  if (!ours || ::rename(file.c_str(), (file.native() + ".1").c_str()) != 0) return;
  const Fd fresh(::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fresh.valid()) return;
  // Other threads may be writing an entry: to one file or the other.
  ::dup2(fresh.get(), STDERR_FILENO);
  // What was stdout and stderr alike stays so.
  struct stat out{};
  if (::fstat(STDOUT_FILENO, &out) == 0 && out.st_dev == open_one.st_dev && out.st_ino == open_one.st_ino) {
    ::dup2(fresh.get(), STDOUT_FILENO);
  }
}

}  // namespace smeltr::daemon
