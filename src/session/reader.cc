#include "session/reader.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "base/fd.h"
#include "event/names.h"
#include "session/block_decoder.h"
#include "session/index.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

bool IsKnown(const BlockEntry& block) {
  return block.opaque || event::FindKind(static_cast<event::Kind>(block.kind_number)) != nullptr;
}

Summary Summarise(const Index& index) {
  Summary summary;
  summary.file_bytes = index.file_bytes;
  summary.min_ts_ns = UINT64_MAX;
  std::map<std::pair<uint16_t, event::Api>, uint64_t> counts;
  for (const StoredChunk& chunk : index.chunks) {
    if (chunk.header.event_count == 0) continue;
    summary.event_count += chunk.header.event_count;
    summary.min_ts_ns = std::min(summary.min_ts_ns, chunk.header.min_ts_ns);
    summary.max_ts_ns = std::max(summary.max_ts_ns, chunk.header.max_ts_ns);
    for (const BlockEntry& block : chunk.header.blocks) {
      counts[{block.kind_number, block.api}] += block.event_count;
    }
  }
  if (summary.event_count == 0) summary.min_ts_ns = 0;
  for (const auto& [key, count] : counts) {
    summary.counts.push_back({key.second, static_cast<event::Kind>(key.first), count});
  }
  return summary;
}

uint64_t UnknownKindEvents(const Index& index) {
  uint64_t count = 0;
  for (const StoredChunk& chunk : index.chunks) {
    for (const BlockEntry& block : chunk.header.blocks) {
      if (block.opaque || !IsKnown(block)) count += block.event_count;
    }
  }
  return count;
}

// One batch as events, for each kind; indexed by kind number.
using VisitBatch = void (*)(BlockDecoder& decoder, event::Event& event,
                            const std::function<void(const event::Event&)>& visit);

template <typename E>
void VisitRows(BlockDecoder& decoder, event::Event& event,
               const std::function<void(const event::Event&)>& visit) {
  const E* row = reinterpret_cast<const E*>(decoder.rows());
  for (const event::Envelope& envelope : decoder.envelopes()) {
    event.envelope = envelope;
    event.payload = *row++;
    visit(event);
  }
}

VisitBatch FindVisitBatch(event::Kind kind) {
  switch (kind) {
#define KIND(number, name, source, naming) \
  case event::Kind::k##name:               \
    return &VisitRows<event::name>;
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
    case event::Kind::kUnknown:
      break;
  }
  return &VisitRows<event::Opaque>;
}

}  // namespace

struct Reader::State {
  using VisitBlock = std::function<void(const BlockEntry& block, BlockDecoder& decoder)>;

  Fd fd;
  Index index;
  Summary summary;
  mutable std::mutex mutex;
  mutable Damage damage;                               // Guarded by mutex.
  mutable std::set<std::pair<size_t, size_t>> broken;  // Chunk and block already counted; guarded by mutex.

  // Decodes each block that `wanted` picks and calls `visit` for every batch.
  void ForEachBlock(const std::function<bool(const BlockEntry&)>& wanted, const VisitBlock& visit) const;
  void NoteDamage(size_t chunk, size_t block, uint64_t bytes) const;
};

namespace {

// What one pass over a file needs; its memory is that of the largest block.
class Pass {
 public:
  Pass(const Fd& fd, Decompressor& decompressor) : fd_(fd), decompressor_(decompressor) {}

  void Enter(const StoredChunk& chunk) {
    chunk_ = &chunk;
    texts_read_ = false;
  }

  bool Open(const BlockEntry& block, uint64_t offset, BlockDecoder& decoder) {
    const Schema* schema = &OpaqueSchema();
    if (!block.opaque) schema = FindSchema(static_cast<event::Kind>(block.kind_number));
    return (!schema->has_texts || ReadTexts()) &&
           Read(offset, block.stored_bytes, block.checksum, block_bytes_) &&
           decoder.Open(block, *schema, block_bytes_, texts_, decompressor_);
  }

 private:
  bool ReadTexts() {
    if (texts_read_) return texts_good_;
    texts_read_ = true;
    const ChunkHeader& header = chunk_->header;
    texts_good_ = Read(chunk_->offset + header.header_bytes, header.text_stored_bytes, header.text_checksum,
                       text_bytes_) &&
                  texts_.Decode(text_bytes_, header.text_count, decompressor_);
    return texts_good_;
  }

  bool Read(uint64_t offset, uint32_t size, uint64_t checksum, std::vector<std::byte>& bytes) {
    bytes.resize(size);
    return ReadUpTo(fd_, offset, bytes) == size && Checksum(bytes) == checksum;
  }

  const Fd& fd_;
  Decompressor& decompressor_;
  const StoredChunk* chunk_ = nullptr;
  bool texts_read_ = false;
  bool texts_good_ = false;
  std::vector<std::byte> text_bytes_;
  std::vector<std::byte> block_bytes_;
  StoredTexts texts_;
};

}  // namespace

void Reader::State::ForEachBlock(const std::function<bool(const BlockEntry&)>& wanted,
                                 const VisitBlock& visit) const {
  Decompressor decompressor;
  BlockDecoder decoder;
  Pass pass(fd, decompressor);
  for (size_t i = 0; i < index.chunks.size(); ++i) {
    const StoredChunk& chunk = index.chunks[i];
    pass.Enter(chunk);
    uint64_t offset = chunk.offset + chunk.header.header_bytes + chunk.header.text_stored_bytes;
    for (size_t j = 0; j < chunk.header.blocks.size(); ++j) {
      const BlockEntry& block = chunk.header.blocks[j];
      if (IsKnown(block) && wanted(block)) {
        const bool opened = pass.Open(block, offset, decoder);
        while (opened && decoder.NextBatch() != 0) visit(block, decoder);
        if (!opened || !decoder.ok()) NoteDamage(i, j, block.stored_bytes);
      }
      offset += block.stored_bytes;
    }
  }
}

void Reader::State::NoteDamage(size_t chunk, size_t block, uint64_t bytes) const {
  const std::lock_guard lock(mutex);
  if (!broken.insert({chunk, block}).second) return;
  ++damage.skipped_chunks;
  damage.skipped_bytes += bytes;
}

Result<Reader> Reader::Open(const std::filesystem::path& file) {
  auto state = std::make_unique<State>();
  SMELTR_ASSIGN_OR_RETURN(state->fd, OpenRegularFile(file));
  SMELTR_ASSIGN_OR_RETURN(state->index, LoadIndex(state->fd));
  state->summary = Summarise(state->index);
  state->damage = state->index.damage;
  state->damage.unknown_kind_events = UnknownKindEvents(state->index);
  return Reader(std::move(state));
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

const Summary& Reader::summary() const { return state_->summary; }

Damage Reader::damage() const {
  const std::lock_guard lock(state_->mutex);
  return state_->damage;
}

void Reader::ForEach(const std::vector<event::Kind>& kinds,
                     const std::function<void(const event::Event&)>& visit) const {
  const auto wanted = [&](const BlockEntry& block) {
    const auto kind = block.opaque ? event::Kind::kUnknown : static_cast<event::Kind>(block.kind_number);
    return kinds.empty() || std::ranges::find(kinds, kind) != kinds.end();
  };
  event::Event event;
  state_->ForEachBlock(wanted, [&](const BlockEntry& block, BlockDecoder& decoder) {
    if (!block.opaque) {
      return FindVisitBatch(static_cast<event::Kind>(block.kind_number))(decoder, event, visit);
    }
    auto* rows = reinterpret_cast<event::Opaque*>(decoder.rows());
    for (size_t i = 0; i < decoder.envelopes().size(); ++i) rows[i].kind_number = block.kind_number;
    VisitRows<event::Opaque>(decoder, event, visit);
  });
}

void Reader::ForEachBatch(
    event::Kind kind,
    const std::function<void(std::span<const event::Envelope>, const void* rows)>& visit) const {
  const auto wanted = [&](const BlockEntry& block) {
    return !block.opaque && block.kind_number == static_cast<uint16_t>(kind);
  };
  state_->ForEachBlock(
      wanted, [&](const BlockEntry&, BlockDecoder& decoder) { visit(decoder.envelopes(), decoder.rows()); });
}

}  // namespace smeltr::session
