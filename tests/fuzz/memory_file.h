// A session file that is nowhere, for targets that write what they read.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "session/append_file.h"

namespace smeltr::session {

class MemoryFile final : public AppendFile {
 public:
  Result<void> WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    bytes_.resize(std::max<size_t>(bytes_.size(), offset + bytes.size()));
    std::ranges::copy(bytes, bytes_.begin() + static_cast<ptrdiff_t>(offset));
    return {};
  }
  bool ReadAt(uint64_t offset, std::span<std::byte> bytes) override {
    if (offset > bytes_.size() || bytes.size() > bytes_.size() - offset) return false;
    std::copy_n(bytes_.begin() + static_cast<ptrdiff_t>(offset), bytes.size(), bytes.begin());
    return true;
  }
  Result<void> Truncate(uint64_t size) override {
    bytes_.resize(size);
    return {};
  }
  Result<void> Sync() override { return {}; }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace smeltr::session
