#include "ring/life_lock.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <utility>

namespace smeltr::ring {
namespace {

// High, but below the usual limit of 1024; the last one at least above the standard three.
constexpr std::array kLowestNumbers = {768, 128, 3};

struct flock WholeFile(short type) {
  struct flock lock{};
  lock.l_type = type;
  lock.l_whence = SEEK_SET;
  return lock;
}

}  // namespace

Fd TakeLifeLock(Fd file) {
  for (const int lowest : kLowestNumbers) {
    Fd high(::fcntl(file.get(), F_DUPFD_CLOEXEC, lowest));
    if (!high.valid()) continue;
    file = std::move(high);
    break;
  }
  // Last of all: the close of the other descriptor would have taken it away again.
  struct flock lock = WholeFile(F_WRLCK);
  static_cast<void>(::fcntl(file.get(), F_SETLK, &lock));
  return file;
}

bool IsLifeLocked(int file) {
  struct flock lock = WholeFile(F_WRLCK);
  return ::fcntl(file, F_GETLK, &lock) == 0 && lock.l_type != F_UNLCK;
}

LockedFile Remember(int fd) {
  struct stat status{};
  if (::fstat(fd, &status) != 0) return {};
  return {.fd = fd, .device = status.st_dev, .inode = status.st_ino};
}

void CloseInherited(const LockedFile& file) {
  struct stat status{};
  if (file.fd < 0 || ::fstat(file.fd, &status) != 0) return;
  if (status.st_dev == file.device && status.st_ino == file.inode) ::close(file.fd);
}

}  // namespace smeltr::ring
