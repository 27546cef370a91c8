// Some disk space kept back, so that a session's metadata can be completed on a disk that programs have
// filled. Not thread-safe.
#pragma once

#include <filesystem>

namespace smeltr::daemon {

class DiskReserve {
 public:
  explicit DiskReserve(std::filesystem::path file) : file_(std::move(file)) {}
  // Takes the space, 1 MiB or as much of it as there is, if it is not held already.
  void Hold();
  // Gives it up for somebody to use now.
  void Release();

 private:
  std::filesystem::path file_;
  bool held_ = false;
};

}  // namespace smeltr::daemon
