#include "daemon/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

namespace smeltr::daemon {
namespace {

constexpr off_t kReserveBytes = 1 << 20;

}  // namespace

void DiskReserve::Hold() {
  if (held_) return;
  const Fd fd(::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return;
  held_ = ::posix_fallocate(fd.get(), 0, kReserveBytes) == 0;
  // Half of it would help nobody and take from those who have too little.
  if (!held_) ::unlink(file_.c_str());
}

void DiskReserve::Release() {
  ::unlink(file_.c_str());
  held_ = false;
}

}  // namespace smeltr::daemon
