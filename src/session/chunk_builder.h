// Gathers events and seals them into one chunk, readable alone.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <vector>

#include "event/event.h"
#include "session/block_builder.h"
#include "session/chunk_header.h"
#include "session/compress.h"
#include "session/text_table.h"

namespace smeltr::session {

class ChunkBuilder {
 public:
  ChunkBuilder(size_t raw_bytes_limit, int zstd_level);

  void Append(const event::Envelope& envelope, const event::Payload& payload);

  size_t event_count() const { return header_.event_count; }
  uint64_t min_ts_ns() const { return header_.min_ts_ns; }
  uint64_t max_ts_ns() const { return header_.max_ts_ns; }
  // Time to seal: the size asked for is reached, or a limit of the format is near.
  bool full() const;

  // The whole chunk, valid until the next call; the builder is empty afterwards. Not for an empty chunk.
  std::span<const std::byte> Seal();

 private:
  struct BlockKey {
    uint16_t kind_number;
    bool opaque;
    event::Api api;
    auto operator<=>(const BlockKey&) const = default;
  };
  static constexpr size_t kApis = event::kEnumSize<event::Api>;

  template <typename E>
  void AppendTo(BlockBuilder& block, const event::Envelope& envelope, const E& fields);
  BlockBuilder& KnownBlock(event::Kind kind, event::Api api);
  BlockBuilder& OpaqueBlock(uint16_t kind_number, event::Api api);
  void NoteEnvelope(const event::Envelope& envelope);
  void NotePid(uint32_t pid);
  void Recycle();

  size_t raw_bytes_limit_;
  size_t raw_bytes_ = 0;
  size_t max_element_count_ = 0;
  TextTable texts_;
  std::map<BlockKey, std::unique_ptr<BlockBuilder>> blocks_;
  // The known kinds again, found without a search.
  std::array<std::array<BlockBuilder*, kApis>, event::kKindLimit> known_{};
  ChunkHeader header_;
  uint32_t last_pid_ = 0;
  bool too_many_pids_ = false;
  Compressor compressor_;
  ByteBuffer scratch_;
  ByteBuffer body_;
  ByteBuffer chunk_;
};

}  // namespace smeltr::session
