// What a session file looks like on disk. docs/formats.md says the same in prose; change both together.
// All numbers are little-endian. Checksums are XXH3-64.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace smeltr::session {

using namespace std::string_view_literals;

inline constexpr std::string_view kFileMagic = "SMELTR\x1a\n"sv;
inline constexpr std::string_view kChunkMagic = "smltCHNK"sv;
inline constexpr std::string_view kFooterMagic = "smltINDX"sv;
inline constexpr std::string_view kTrailerMagic = "smltDONE"sv;

// A reader refuses another major; within a major, newer writers only add what older readers skip. Major 1 had
// plain columns without a factor and lists without shapes.
inline constexpr uint16_t kFormatMajor = 2;
inline constexpr uint16_t kFormatMinor = 0;

// Magic, u16 major, u16 minor, u32 lower half of their checksum; zero: there is none.
inline constexpr size_t kFileHeaderBytes = 16;
// Magic, u64 checksum of all header bytes after it, then the numbers of ChunkHeader.
inline constexpr size_t kChunkFixedBytes = 72;
inline constexpr size_t kChunkChecksummedFrom = 16;
// u16 kind, u8 api, u8 flags, u32 events, u32 stored bytes, u32 zero, u64 checksum.
inline constexpr size_t kBlockEntryBytes = 24;
// Footer: magic, then for each chunk u64 offset and its header without the magic (so that a scan for
// chunks never takes the copy for the chunk). Trailer, the last bytes of a closed file: u64 footer offset,
// u64 chunk count, u64 checksum of the footer and these two numbers, magic.
inline constexpr size_t kTrailerBytes = 32;

// The block holds events of a kind its writer did not know: one list column with their frame bytes.
inline constexpr uint8_t kBlockOpaque = 1;

// What a column holds. Readers skip columns of types they do not know.
enum class ColumnType : uint8_t { kInteger = 1, kDouble = 2, kText = 3, kList = 4 };

// How the numbers of a column are stored: a transform, then the results in planes. Plane 0 is the lowest
// byte of all of them, one after the other, and so on; each plane is a zstd frame where that is smaller.
enum class Transform : uint8_t {
  kConstant = 0,  // Every value is `base`. No planes.
  kPlain = 1,     // (value - base) / factor
  kDelta = 2,     // zigzag(value - previous) - min_step; `base` stands before the first value.
  kNear = 3,      // (value - that of another column - base) / factor
};

// Where the numbers of a list's column stand.
enum class Placement : uint8_t {
  kElement = 0,  // One an element.
  kShape = 1,    // One a shape; an element has those of its shape.
  kBoth = 2,     // First one a shape, then one an element: their sum.
};

// How the characters of a chunk's texts are stored.
enum class TextForm : uint8_t { kPlain = 0, kCompressed = 1 };

// Limits that bound what a reader allocates, whatever a file says. Writers seal well before them.
inline constexpr uint32_t kMaxChunkEvents = 1U << 17;
inline constexpr uint32_t kMaxBlockElements = 1U << 18;  // List elements of one list field in one block.
inline constexpr uint32_t kMaxListElements = 1U << 16;   // Of one event; writers cut longer lists.
inline constexpr uint32_t kMaxTextTableBytes = 1U << 25;
inline constexpr uint32_t kMaxTexts = 1U << 20;
inline constexpr uint32_t kMaxChunkHeaderBytes = 1U << 16;
inline constexpr uint32_t kMaxChunkBodyBytes = 1U << 28;
inline constexpr uint32_t kMaxBlocks = 1024;
inline constexpr uint32_t kMaxListedPids = 256;  // More processes in one chunk: none is listed.

}  // namespace smeltr::session
