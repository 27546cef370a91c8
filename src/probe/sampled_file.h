// Small files of /proc and /sys, read cheaply and often.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace smeltr::probe {

// What `path` (relative to `directory_fd`, or AT_FDCWD) holds, as much as fits into `buffer`, in which the
// result lies. nullopt, with errno set, when it cannot be read. Never waits at a FIFO.
std::optional<std::string_view> ReadSmallFile(int directory_fd, const char* path, std::span<char> buffer);
std::optional<std::string_view> ReadSmallFile(const std::string& path, std::span<char> buffer);

// One that is read again and again: opened once, and every reading begins at its start.
class SampledFile {
 public:
  explicit SampledFile(std::string path) : path_(std::move(path)) {}
  // As ReadSmallFile. A file that cannot be read is opened anew the next time.
  std::optional<std::string_view> Read(std::span<char> buffer);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  Fd fd_;
};

}  // namespace smeltr::probe
