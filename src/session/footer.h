// The index at the end of a closed file: all chunk headers in one place. Only an optimisation; without
// it, or when it does not hold, the chunks are found by scanning.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "session/append_file.h"
#include "session/chunk_header.h"

namespace smeltr::session {

struct StoredChunk {
  uint64_t offset = 0;
  ChunkHeader header;
};

// Walks the `chunk_count` chunks that end at `offset` and writes their index there. Returns the new end.
// Memory does not depend on the number of chunks.
Result<uint64_t> WriteFooter(AppendFile& file, uint64_t offset, uint64_t chunk_count);

// Nothing when there is no footer, or one that does not hold in every detail.
std::optional<std::vector<StoredChunk>> ReadFooter(const Fd& fd, uint64_t file_bytes);

}  // namespace smeltr::session
