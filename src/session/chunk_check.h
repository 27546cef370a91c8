// Whether a chunk is what its header says it is: checksums, columns, and the rows' times, seqs and pids.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "session/block_decoder.h"
#include "session/chunk_header.h"
#include "session/compress.h"
#include "session/text_table.h"

namespace smeltr::session {

enum class BlockState : uint8_t {
  kSound,
  kDamaged,       // Its checksum does not hold.
  kMalformed,     // Its checksum holds, but its columns are not what the format asks for.
  kContradicted,  // Its rows are not within the times, seqs or pids of the header: readers would miss some.
  kWithoutTexts,  // Sound, but its texts are lost.
};

struct CheckedBlock {
  BlockState state = BlockState::kSound;
  // Of its rows, as far as they could be decoded.
  uint64_t min_ts_ns = UINT64_MAX;
  uint64_t max_ts_ns = 0;
  uint64_t min_seq = UINT64_MAX;
};

struct CheckedChunk {
  bool texts_sound = true;
  std::vector<CheckedBlock> blocks;  // As in the header.
  bool sound() const;
};

// Decodes every column of kinds that are known, and the first four of all others. Not thread-safe; keeps its
// memory from chunk to chunk.
class ChunkChecker {
 public:
  // `body` holds header.body_bytes.
  CheckedChunk Check(const ChunkHeader& header, std::span<const std::byte> body);

 private:
  void CheckRows(const ChunkHeader& header, const BlockEntry& entry, std::span<const std::byte> bytes,
                 CheckedBlock& block);

  Decompressor decompressor_;
  StoredTexts texts_;
  BlockDecoder decoder_;
};

}  // namespace smeltr::session
