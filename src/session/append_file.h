// A file that only grows, except that a refused tail can be cut off again. The seam that tests replace.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr::session {

class AppendFile {
 public:
  virtual ~AppendFile() = default;
  // All of `bytes` at `offset`, or an error with any part of them written. kNoSpace for a full disk or quota.
  virtual Result<void> WriteAt(uint64_t offset, std::span<const std::byte> bytes) = 0;
  // Fills `bytes`; false where the file does not have them.
  virtual bool ReadAt(uint64_t offset, std::span<std::byte> bytes) = 0;
  virtual Result<void> Truncate(uint64_t size) = 0;
  virtual Result<void> Sync() = 0;
};

// Creates `path` with mode 0600; kAlreadyExists if it is there.
Result<std::unique_ptr<AppendFile>> CreateAppendFile(const std::filesystem::path& path);

// Makes the names in it safe from a crash of the machine: a file's own sync does not.
Result<void> SyncDirectory(const std::filesystem::path& directory);

// The bytes at `offset`; fewer at the end of the file or where the disk fails.
size_t ReadUpTo(const Fd& fd, uint64_t offset, std::span<std::byte> bytes);

}  // namespace smeltr::session
