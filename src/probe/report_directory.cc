#include "probe/report_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <utility>

#include "base/clock.h"
#include "base/fd.h"
#include "probe/file_times.h"

namespace smeltr::probe {
namespace {

// Directories are a stranger's: what is beyond is not looked at.
constexpr size_t kMaxEntries = 10'000;
// File systems have coarse clocks: two changes within a tick look like one, and all seem to be a bit in the
// past.
constexpr uint64_t kSettledNs = 2 * kNsPerSecond;
// What was not complete after so long never will be.
constexpr uint64_t kPatienceNs = 600 * kNsPerSecond;

struct CloseDirectory {
  void operator()(DIR* stream) const { ::closedir(stream); }
};

}  // namespace

ReportDirectory::ReportDirectory(std::filesystem::path directory, Entries entries,
                                 uint64_t not_before_unix_ns)
    : directory_(std::move(directory)), kind_(entries), not_before_unix_ns_(not_before_unix_ns) {}

bool ReportDirectory::Scan(uint64_t wall_now_ns, const Accept& accept, const Read& read) {
  struct stat status{};
  if (::stat(directory_.c_str(), &status) != 0) return false;
  const Known state{ChangedUnixNs(status), 0, status.st_ino};
  const bool settled = state.changed_unix_ns + kSettledNs < wall_now_ns;
  if (state == last_state_ && settled && !waiting_) return true;

  Fd fd(::open(directory_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return false;
  const int directory_fd = fd.get();
  const std::unique_ptr<DIR, CloseDirectory> stream(::fdopendir(directory_fd));
  if (stream == nullptr) return false;
  [[maybe_unused]] const int owned_by_stream = fd.Release();
  last_state_ = state;
  waiting_ = false;
  ++scans_;
  while (const dirent* entry = ::readdir(stream.get())) {
    if (accept(entry->d_name)) Look(directory_fd, entry->d_name, wall_now_ns, read);
  }
  std::erase_if(entries_, [&](const auto& entry) { return entry.second.seen_in != scans_; });
  return true;
}

void ReportDirectory::Look(int directory_fd, const char* name, uint64_t wall_now_ns, const Read& read) {
  struct stat status{};
  if (::fstatat(directory_fd, name, &status, AT_SYMLINK_NOFOLLOW) != 0) return;
  if (kind_ == Entries::kDirectories ? !S_ISDIR(status.st_mode) : !S_ISREG(status.st_mode)) return;
  const auto found = entries_.find(std::string_view(name));
  if (found == entries_.end() && entries_.size() >= kMaxEntries) return;
  Entry& entry = found == entries_.end() ? entries_[name] : found->second;
  entry.seen_in = scans_;
  const Known state{ChangedUnixNs(status), static_cast<uint64_t>(status.st_size), status.st_ino};
  if (entry.state != state) {
    entry.state = state;
    entry.done = state.changed_unix_ns + kSettledNs < not_before_unix_ns_ || read(directory_ / name);
  }
  if (!entry.done && state.changed_unix_ns + kPatienceNs > wall_now_ns) waiting_ = true;
}

}  // namespace smeltr::probe
