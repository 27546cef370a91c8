// The shared-memory ring of one traced process: what lies where, and the protocol between the two sides.
//
//   RingHeader | BlockHeader x block_count | string table | blocks
//
// Guarantees a user may rely on:
//   1. A write never blocks, allocates or enters the kernel.
//   2. A full ring drops the newest events and counts them exactly, per kind.
//   3. A writer killed between any two instructions hides nothing that was committed before, by it or
//      by others, and never stalls the reader.
//   4. Events of one thread come out in the order that thread wrote them.
//   5. Neither side needs the other to be alive; a reader that starts late or again goes on where the
//      last one stopped.
//
// How: the data area is cut into blocks. A thread claims a free block, is its only writer, appends
// frames (event/frame.h) and publishes them by storing `committed`. When the next frame does not fit,
// it closes the block and claims another. No two threads ever write the same cache line on the way.
// The reader consumes what is committed and frees closed blocks that it has read to the end.
//
// The one rule for whoever implements the reader: the other side may write anything at any time.
// Copy a value, check it, then use the copy.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "event/event.h"

namespace smeltr::ring {

inline constexpr uint32_t kMagic = 0x524C4D53;  // "SMLR" in memory.
inline constexpr uint32_t kVersion = 4;         // 3 was the earlier smeltr's.

inline constexpr uint32_t kBlockBytes = 32 * 1024;
inline constexpr uint32_t kDefaultBlockCount = 512;  // 16 MiB of events.
inline constexpr uint32_t kMaxBlockCount = 64 * 1024;
// Blocks that only fatal-signal frames may claim, so that a full ring cannot lose them.
inline constexpr uint32_t kFatalBlockCount = 2;
inline constexpr uint32_t kStringSlotCount = 64 * 1024;  // A power of two.
inline constexpr uint32_t kStringBytes = 4 * 1024 * 1024;
// Frames start at multiples of this within a block.
inline constexpr uint32_t kFrameAlignment = 8;

// All atomics are lock-free and therefore address-free: valid across processes.
static_assert(std::atomic<uint32_t>::is_always_lock_free && std::atomic<uint64_t>::is_always_lock_free);

enum class BlockState : uint32_t {
  kFree,
  kOwned,   // One thread appends to it.
  kClosed,  // Complete; free again once it has been read.
};

struct BlockHeader {
  std::atomic<BlockState> state;
  uint32_t tid;                     // Written by the owner before the first commit.
  std::atomic<uint64_t> order;      // From RingHeader::next_order at the claim: older first; 0 = not yet.
  std::atomic<uint32_t> committed;  // Bytes of complete frames. Stored by the owner with release.
  std::atomic<uint32_t> consumed;   // Bytes the reader has taken. Stored by the reader alone.
  std::array<uint64_t, 5> reserved;
};
static_assert(sizeof(BlockHeader) == 64, "one cache line a block; part of the layout: bump kVersion");

struct RingHeader {
  // Set before the file gets its final name, constant from then on.
  uint32_t magic;
  uint32_t version;
  uint32_t header_bytes;  // Offset of the block headers.
  uint32_t block_count;
  uint32_t block_bytes;
  uint32_t string_slot_count;
  uint64_t string_table_offset;  // string_slot_count x u64, then string_bytes of characters.
  uint64_t string_bytes;
  uint64_t blocks_offset;
  uint64_t total_bytes;
  uint32_t pid;
  uint32_t reserved0;
  uint64_t start_time_ticks;  // With pid, the process's identity.
  uint64_t created_ns;

  alignas(64) std::atomic<uint64_t> next_order;  // Orders drawn so far; the next is this + 1.
  std::atomic<uint32_t> claim_hint;              // A packed ClaimHint.
  alignas(64) std::atomic<uint64_t> string_used_bytes;
  std::atomic<uint64_t> strings_inline;      // Texts sent inline because the table was full.
  alignas(64) std::atomic<uint64_t> closed;  // 1 = the process said goodbye; nothing more will come.
  // By kind number; running totals. The reader alone stores what it has reported of them.
  alignas(64) std::array<std::atomic<uint64_t>, event::kKindLimit> dropped;
  alignas(64) std::array<std::atomic<uint64_t>, event::kKindLimit> dropped_reported;
};
static_assert(sizeof(RingHeader) == 2368, "part of the layout: bump kVersion");

// Where everything lies follows from the number of blocks alone; the header repeats it, and a reader
// refuses a header that says otherwise.
struct Geometry {
  uint64_t header_bytes;
  uint64_t string_table_offset;
  uint64_t blocks_offset;
  uint64_t total_bytes;
};

constexpr Geometry GeometryOf(uint32_t block_count) {
  constexpr uint64_t kPageBytes = 4096;
  Geometry geometry{};
  geometry.header_bytes = sizeof(RingHeader);
  geometry.string_table_offset = geometry.header_bytes + uint64_t{block_count} * sizeof(BlockHeader);
  const uint64_t strings_end =
      geometry.string_table_offset + uint64_t{kStringSlotCount} * sizeof(uint64_t) + kStringBytes;
  geometry.blocks_offset = (strings_end + kPageBytes - 1) / kPageBytes * kPageBytes;
  geometry.total_bytes = geometry.blocks_offset + uint64_t{block_count} * kBlockBytes;
  return geometry;
}

// RingHeader::claim_hint. No block below `index` is free, as far as is known, so a full ring is noticed
// without a search and the lowest blocks are used again first, which keeps the touched memory small.
// `version` changes with every block that the reader frees: a writer that searched meanwhile must not
// declare the ring full.
struct ClaimHint {
  static constexpr uint32_t kIndexBits = 17;
  static_assert(kMaxBlockCount < 1U << kIndexBits);

  static constexpr ClaimHint Unpack(uint32_t word) {
    return {.index = word & ((1U << kIndexBits) - 1), .version = word >> kIndexBits};
  }
  constexpr uint32_t Pack() const { return index | version << kIndexBits; }

  uint32_t index;
  uint32_t version;  // The upper bits fall off when it is packed.
};

// A string slot holds 0, or hash (high 32 bits) and offset + 1 (low 32) into the character area.
// There, at a multiple of 4: u32 length, then the characters. The id of a string is its offset + 1. Slots
// are set once, by compare-and-swap, after the characters are written; a string is never moved or removed.

}  // namespace smeltr::ring
