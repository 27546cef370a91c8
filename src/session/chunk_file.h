// Writes a session file from chunks that a Writer sealed before, as they are: no event is decoded.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "session/append_file.h"

namespace smeltr::session {

struct ChunkFileStats {
  uint64_t event_count = 0;
  uint64_t chunk_count = 0;
  uint64_t file_bytes = 0;
  uint64_t min_ts_ns = 0;  // Both 0 without events.
  uint64_t max_ts_ns = 0;
  std::map<std::string, uint64_t> counts_by_kind;  // Full kind names; adds up to event_count.
};

class ChunkFileWriter {
 public:
  // Creates the file (0600); kAlreadyExists if it is there.
  static Result<ChunkFileWriter> Create(const std::filesystem::path& file);

  // kCorrupt, with nothing written, unless `chunk` is exactly one whole chunk.
  Result<void> Append(std::span<const std::byte> chunk);
  // Footer and fdatasync. Call once, at the end.
  Result<void> Close();

  const ChunkFileStats& stats() const { return stats_; }

 private:
  explicit ChunkFileWriter(std::unique_ptr<AppendFile> file) : file_(std::move(file)) {}

  std::unique_ptr<AppendFile> file_;
  ChunkFileStats stats_;
};

}  // namespace smeltr::session
