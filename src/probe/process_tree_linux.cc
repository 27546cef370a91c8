#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <memory>

#include "probe/proc_text.h"
#include "probe/process_tree.h"
#include "probe/sampled_file.h"

namespace smeltr::probe {
namespace {

// More than the longest line of /proc/<pid>/stat.
constexpr size_t kStatBytes = 1024;
// No environment is longer in practice; a process cannot make us read for ever.
constexpr size_t kMaxEnvironmentBytes = size_t{1} << 20;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

bool ReadEntry(int proc_fd, const char* pid_text, ProcessEntry& process) {
  std::array<char, 32> path{};
  const size_t length = ::strnlen(pid_text, 16);
  std::copy_n(pid_text, length, path.data());
  std::copy_n("/stat", 6, path.data() + length);
  const Fd fd(::openat(proc_fd, path.data(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat owner{};
  if (!fd.valid() || ::fstat(fd.get(), &owner) != 0) return false;
  std::array<char, kStatBytes> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
  const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
  process.uid = owner.st_uid;
  return got > 0 && ParseStat({buffer.data(), static_cast<size_t>(got)}, process);
}

// Looks for one entry in a block of NUL-terminated ones that comes in pieces.
class EntrySearch {
 public:
  explicit EntrySearch(std::string_view entry) : entry_(entry) {}
  bool Feed(std::string_view piece) {
    for (const char c : piece) {
      if (c == '\0') {
        if (matching_ && matched_ == entry_.size()) return true;
        matching_ = true;
        matched_ = 0;
      } else if (matching_) {
        matching_ = matched_ < entry_.size() && entry_[matched_] == c;
        ++matched_;
      }
    }
    return false;
  }

 private:
  std::string_view entry_;
  bool matching_ = true;
  size_t matched_ = 0;
};

}  // namespace

std::vector<ProcessEntry> ListProcesses(const std::string& proc_root) {
  std::vector<ProcessEntry> processes;
  const std::unique_ptr<DIR, CloseDirectory> directory(::opendir(proc_root.c_str()));
  if (directory == nullptr) return processes;
  const int proc_fd = ::dirfd(directory.get());
  while (const dirent* entry = ::readdir(directory.get())) {  // NOLINT(concurrency-mt-unsafe): own stream.
    if (entry->d_name[0] < '1' || entry->d_name[0] > '9') continue;
    ProcessEntry process;
    if (ReadEntry(proc_fd, entry->d_name, process)) processes.push_back(std::move(process));
  }
  return processes;
}

EnvironmentAnswer AskEnvironment(const std::string& proc_root, uint32_t pid, std::string_view entry) {
  const Fd fd(::open((proc_root + "/" + std::to_string(pid) + "/environ").c_str(),
                     O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return EnvironmentAnswer::kHasNot;
  EntrySearch search(entry);
  std::array<char, 4096> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
  size_t total = 0;
  while (total < kMaxEnvironmentBytes) {
    const ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0) return EnvironmentAnswer::kHasNot;
    if (got == 0) break;
    if (search.Feed({buffer.data(), static_cast<size_t>(got)})) return EnvironmentAnswer::kHas;
    total += static_cast<size_t>(got);
  }
  return total == 0 ? EnvironmentAnswer::kEmpty : EnvironmentAnswer::kHasNot;
}

}  // namespace smeltr::probe
