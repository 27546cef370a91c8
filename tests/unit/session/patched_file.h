// A file in memory whose bytes a test flips and cuts, thousands of times a second.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

#include "base/fd.h"

namespace smeltr::session::testing {

class PatchedFile {
 public:
  explicit PatchedFile(std::string_view bytes)
      : fd_(::memfd_create("patched", MFD_CLOEXEC)), size_(bytes.size()) {
    if (!fd_.valid() || ::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0)
      throw std::runtime_error("memfd");
    mapping_ = ::mmap(nullptr, size_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    if (mapping_ == MAP_FAILED) throw std::runtime_error("mmap");
    std::memcpy(mapping_, bytes.data(), size_);
  }
  ~PatchedFile() { ::munmap(mapping_, size_); }
  PatchedFile(const PatchedFile&) = delete;
  PatchedFile& operator=(const PatchedFile&) = delete;

  std::filesystem::path path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }
  size_t size() const { return size_; }
  // Flipped twice, a bit is as it was.
  void Flip(size_t bit) {
    auto* const bytes = static_cast<unsigned char*>(mapping_);
    bytes[bit / 8] = static_cast<unsigned char>(bytes[bit / 8] ^ (1U << (bit % 8)));
  }
  // For good: what is cut off is lost.
  void CutTo(size_t size) {
    if (::ftruncate(fd_.get(), static_cast<off_t>(size)) != 0) throw std::runtime_error("ftruncate");
  }

 private:
  Fd fd_;
  size_t size_;
  void* mapping_ = nullptr;
};

}  // namespace smeltr::session::testing
