#include "base/clock.h"
#include "probe/file_times.h"

namespace smeltr::probe {

uint64_t ChangedUnixNs(const struct stat& status) {
  return static_cast<uint64_t>(status.st_mtimespec.tv_sec) * kNsPerSecond +
         static_cast<uint64_t>(status.st_mtimespec.tv_nsec);
}

}  // namespace smeltr::probe
