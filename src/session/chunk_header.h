// The header of a chunk: what is in it and where, readable without its body.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "event/event.h"
#include "session/byte_buffer.h"
#include "session/format.h"

namespace smeltr::session {

struct BlockEntry {
  uint16_t kind_number = 0;
  event::Api api = event::Api::kNone;
  bool opaque = false;
  uint32_t event_count = 0;
  uint32_t stored_bytes = 0;
  uint64_t checksum = 0;
};

struct ChunkHeader {
  uint32_t header_bytes = 0;
  uint32_t body_bytes = 0;
  uint64_t first_seq = 0;
  uint64_t min_ts_ns = 0;
  uint64_t max_ts_ns = 0;
  uint32_t event_count = 0;
  uint32_t text_count = 0;
  uint32_t text_stored_bytes = 0;
  uint64_t text_checksum = 0;
  std::vector<BlockEntry> blocks;  // By kind, then api; their bytes follow the texts in this order.
  std::vector<uint32_t> pids;      // Rising; empty also when there are too many to list.

  uint64_t chunk_bytes() const { return uint64_t{header_bytes} + body_bytes; }
};

uint64_t Checksum(std::span<const std::byte> bytes);

// What every file begins with.
void PutFileHeader(ByteBuffer& out);
// Whether `bytes` (kFileHeaderBytes) are a header as PutFileHeader writes it, of any minor version.
bool FileHeaderHolds(std::span<const std::byte> bytes);
// False for one whose checksum says that it is not as it was written; zero is none.
bool FileHeaderChecksumHolds(std::span<const std::byte> bytes);

// Fills header.header_bytes in.
void EncodeChunkHeader(ChunkHeader& header, ByteBuffer& out);

// The header_bytes that `fixed` (kChunkFixedBytes at least) claims, if it looks like a chunk at all.
std::optional<uint32_t> ClaimedHeaderBytes(std::span<const std::byte> fixed);
// `bytes` is the whole header. Nothing comes back unless the checksum and every length hold.
std::optional<ChunkHeader> DecodeChunkHeader(std::span<const std::byte> bytes);

}  // namespace smeltr::session
