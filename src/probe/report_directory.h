// A directory in which reports appear: finds the new and the changed ones, at the cost of one stat() while
// nothing happens.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

namespace smeltr::probe {

class ReportDirectory {
 public:
  enum class Entries : uint8_t { kFiles, kDirectories };
  // What was last changed before `not_before_unix_ns` is old news.
  ReportDirectory(std::filesystem::path directory, Entries entries, uint64_t not_before_unix_ns);

  // Whether an entry of this name may be a report.
  using Accept = std::function<bool(std::string_view name)>;
  // False: not complete; it is shown again when it has changed.
  using Read = std::function<bool(const std::filesystem::path& path)>;
  // False, with errno set, when the directory cannot be read.
  bool Scan(uint64_t wall_now_ns, const Accept& accept, const Read& read);

  const std::filesystem::path& path() const { return directory_; }

 private:
  struct Known {
    uint64_t changed_unix_ns = 0;
    uint64_t size_bytes = 0;
    uint64_t inode = 0;
    bool operator==(const Known&) const = default;
  };
  struct Entry {
    Known state;
    bool done = false;
    uint64_t seen_in = 0;
  };

  void Look(int directory_fd, const char* name, uint64_t wall_now_ns, const Read& read);

  std::filesystem::path directory_;
  Entries kind_;
  uint64_t not_before_unix_ns_;
  uint64_t scans_ = 0;
  Known last_state_;
  bool waiting_ = false;  // For some file to change.
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace smeltr::probe
