// The event file of an earlier Rust smeltr, as a sequence of CBOR values. Three layouts:
//
//   events.cbor       frames
//   events.cbor.zst   one zstd stream of frames
//   events.cbor.zst   "SMz", version 1; chunks: u32 length, a zstd frame of whole frames; then a footer
//   (count,
//                     40 bytes a chunk) and a trailer of 20 bytes (u64 footer offset, u32 CRC, u64 magic)
//   frame             u32 length, that many bytes of CBOR; little-endian, at most 16 MiB
//
// The chunks are found by their own heads, not by the footer, which is only looked at to say whether it is
// there and agrees. After damage, reading goes on at the next zstd frame that begins like one: in a chunked
// file that loses a chunk, in a stream all the rest. Reads with bounded memory, and never maps the file.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string_view>

#include "base/result.h"
#include "session/import_notes.h"

namespace smeltr::session {

enum class V1Layout : uint8_t { kPlain, kStream, kChunked };
// "Rust smeltr, plain", "Rust smeltr, stream", "Rust smeltr, chunked"
std::string_view Name(V1Layout layout);

struct V1StreamReport {
  V1Layout layout = V1Layout::kStream;
  uint64_t frame_count = 0;      // Given to `visit` and accepted.
  uint64_t bad_frame_count = 0;  // Refused by `visit`.
  bool damaged = false;          // Something is missing; the notes say what.
};

struct V1StreamOptions {
  ImportNotes* notes = nullptr;  // Where losses are told, with byte offsets of the file. Required.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = nullptr;
};

// An answer of `visit`. kBad: this is no event; counted, and where the first one lay is noted.
enum class V1Visit : uint8_t { kGo, kBad, kStop };

// Errors: kNotFound and the like for the file itself, kUnsupported for a newer version. Damage is none.
// `cbor` is valid during the call.
Result<V1StreamReport> ReadV1Stream(const std::filesystem::path& file, const V1StreamOptions& options,
                                    const std::function<V1Visit(std::span<const std::byte> cbor)>& visit);

}  // namespace smeltr::session
