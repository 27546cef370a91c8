// A directory that goes away with the test.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace smeltr::session::testing {

class TemporaryDirectory {
 public:
  TemporaryDirectory() {
    // In memory where there is one: some tests write thousands of small files.
    std::error_code ignored;
    const bool shm = std::filesystem::is_directory("/dev/shm", ignored);
    const std::filesystem::path base = shm ? "/dev/shm" : std::filesystem::temp_directory_path();
    std::string pattern = (base / "smeltr-session-XXXXXX").native();
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("mkdtemp");
    path_ = pattern;
  }
  ~TemporaryDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryDirectory(const TemporaryDirectory&) = delete;
  TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace smeltr::session::testing
