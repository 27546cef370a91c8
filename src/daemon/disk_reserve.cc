#include "daemon/disk_reserve.h"

#include <fcntl.h>
#include <unistd.h>

#include "base/fd.h"

namespace smeltr::daemon {
namespace {

constexpr off_t kReserveBytes = 1 << 20;
// Metadata takes some KiB at a time; less than this is no reserve.
constexpr off_t kStepBytes = 64 << 10;

}  // namespace

void DiskReserve::Hold() {
  if (held_) return;
  const Fd fd(::open(file_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return;
  for (off_t size = kReserveBytes; size > 0 && !held_; size -= kStepBytes) {
    held_ = ::posix_fallocate(fd.get(), 0, size) == 0;
  }
  if (!held_) ::unlink(file_.c_str());
}

void DiskReserve::Release() {
  ::unlink(file_.c_str());
  held_ = false;
}

}  // namespace smeltr::daemon
