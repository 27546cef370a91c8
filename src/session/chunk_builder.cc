#include "session/chunk_builder.h"

#include <algorithm>

namespace smeltr::session {
namespace {

// What a number of a column takes before zstd, by and large: constant columns nothing, times two or three.
constexpr size_t kBytesPerValue = 2;
// Rows kept ready between chunks, all kinds together.
constexpr size_t kKeptBytes = 16U << 20;
constexpr size_t kSealAtEvents = kMaxChunkEvents / 2;
constexpr size_t kSealAtElements = kMaxBlockElements - kMaxListElements;
constexpr size_t kSealAtTexts = kMaxTexts / 2;
constexpr size_t kSealAtTextBytes = kMaxTextTableBytes / 2;

}  // namespace

ChunkBuilder::ChunkBuilder(size_t raw_bytes_limit, int zstd_level)
    : raw_bytes_limit_(raw_bytes_limit), compressor_(zstd_level) {}

BlockBuilder& ChunkBuilder::KnownBlock(event::Kind kind, event::Api api) {
  BlockBuilder*& known = known_[static_cast<size_t>(kind)][static_cast<size_t>(api)];
  if (known == nullptr) {
    auto& block = blocks_[{static_cast<uint16_t>(kind), false, api}];
    block = std::make_unique<BlockBuilder>(*FindSchema(kind));
    known = block.get();
  }
  return *known;
}

BlockBuilder& ChunkBuilder::OpaqueBlock(uint16_t kind_number, event::Api api) {
  auto& block = blocks_[{kind_number, true, api}];
  if (block == nullptr) block = std::make_unique<BlockBuilder>(OpaqueSchema());
  return *block;
}

template <typename E>
void ChunkBuilder::AppendTo(BlockBuilder& block, const event::Envelope& envelope, const E& fields) {
  const size_t before = block.value_count();
  block.Append(envelope, fields, texts_);
  raw_bytes_ += (block.value_count() - before) * kBytesPerValue;
  max_element_count_ = std::max(max_element_count_, block.max_element_count());
}

void ChunkBuilder::Append(const event::Envelope& envelope, const event::Payload& payload) {
  event::Envelope checked = envelope;
  if (static_cast<size_t>(checked.api) >= kApis) checked.api = event::Api::kNone;
  NoteEnvelope(checked);
  std::visit(
      [&]<typename E>(const E& fields) {
        if constexpr (std::same_as<E, event::Opaque>) {
          AppendTo(OpaqueBlock(fields.kind_number, checked.api), checked, fields);
        } else {
          AppendTo(KnownBlock(E::kKind, checked.api), checked, fields);
        }
      },
      payload);
}

void ChunkBuilder::NoteEnvelope(const event::Envelope& envelope) {
  if (header_.event_count == 0) {
    header_.first_seq = envelope.seq;
    header_.min_ts_ns = header_.max_ts_ns = envelope.ts_ns;
  }
  ++header_.event_count;
  header_.min_ts_ns = std::min(header_.min_ts_ns, envelope.ts_ns);
  header_.max_ts_ns = std::max(header_.max_ts_ns, envelope.ts_ns);
  if (envelope.pid != last_pid_) NotePid(envelope.pid);
}

void ChunkBuilder::NotePid(uint32_t pid) {
  last_pid_ = pid;
  if (pid == 0 || too_many_pids_) return;
  const auto place = std::ranges::lower_bound(header_.pids, pid);
  if (place != header_.pids.end() && *place == pid) return;
  header_.pids.insert(place, pid);
  if (header_.pids.size() <= kMaxListedPids) return;
  header_.pids.clear();
  too_many_pids_ = true;
}

bool ChunkBuilder::full() const {
  return raw_bytes_ + texts_.text_bytes() >= raw_bytes_limit_ || header_.event_count >= kSealAtEvents ||
         max_element_count_ >= kSealAtElements || texts_.count() >= kSealAtTexts ||
         texts_.text_bytes() >= kSealAtTextBytes || blocks_.size() >= kMaxBlocks;
}

std::span<const std::byte> ChunkBuilder::Seal() {
  body_.Clear();
  header_.text_count = static_cast<uint32_t>(texts_.count());
  texts_.Encode(compressor_, scratch_, body_);
  header_.text_stored_bytes = static_cast<uint32_t>(body_.size());
  header_.text_checksum = Checksum(body_.view());
  for (const auto& [key, block] : blocks_) {
    if (block->event_count() == 0) continue;
    const size_t start = body_.size();
    const auto event_count = static_cast<uint32_t>(block->event_count());
    block->Encode(compressor_, scratch_, body_);
    header_.blocks.push_back({.kind_number = key.kind_number,
                              .api = key.api,
                              .opaque = key.opaque,
                              .event_count = event_count,
                              .stored_bytes = static_cast<uint32_t>(body_.size() - start),
                              .checksum = Checksum(body_.view().subspan(start))});
  }
  header_.body_bytes = static_cast<uint32_t>(body_.size());
  chunk_.Clear();
  EncodeChunkHeader(header_, chunk_);
  chunk_.PutBytes(body_.view());
  Recycle();
  return chunk_.view();
}

void ChunkBuilder::Recycle() {
  size_t capacity_bytes = 0;
  for (const auto& [key, block] : blocks_) capacity_bytes += block->capacity_bytes();
  for (const auto& [key, block] : blocks_) {
    // Kinds that came in a burst long ago must not keep their rows for ever.
    const bool mostly_empty = block->value_count() * sizeof(uint64_t) < block->capacity_bytes() / 4;
    if (capacity_bytes > kKeptBytes && mostly_empty) block->Release();
    block->Clear();
  }
  if (blocks_.size() > kMaxBlocks / 2) {
    blocks_.clear();
    known_ = {};
  }
  texts_.Clear();
  header_ = {};
  raw_bytes_ = max_element_count_ = 0;
  last_pid_ = 0;
  too_many_pids_ = false;
}

}  // namespace smeltr::session
