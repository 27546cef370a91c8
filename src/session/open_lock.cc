#include "session/open_lock.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <time.h>

#include "util/file.h"

namespace smeltr::session {
namespace {

Fd OpenDirectory(const std::filesystem::path& directory) {
  return Fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW));
}

}  // namespace

Result<Fd> LockOpen(const std::filesystem::path& directory) {
  Fd fd = OpenDirectory(directory);
  if (!fd.valid()) return std::unexpected(SystemError("open", directory, errno));
  // A reader looking at this moment holds it shared, for an instant.
  for (int attempt = 0; attempt < 100; ++attempt) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    if (errno != EWOULDBLOCK && errno != EINTR) {
      return std::unexpected(SystemError("lock", directory, errno));
    }
    const timespec pause{0, 1'000'000};
    ::nanosleep(&pause, nullptr);
  }
  return Fail(ErrorCode::kAlreadyExists, fmt::format("{} is being recorded already", directory.native()));
}

bool IsOpen(const std::filesystem::path& directory) {
  const Fd fd = OpenDirectory(directory);
  if (!fd.valid() || ::flock(fd.get(), LOCK_SH | LOCK_NB) == 0) return false;
  return errno == EWOULDBLOCK;
}

}  // namespace smeltr::session
