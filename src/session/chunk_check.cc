#include "session/chunk_check.h"

#include <algorithm>

#include "session/schema.h"

namespace smeltr::session {
namespace {

// Of a kind that this build does not know: its events' times, seqs and pids are where every kind has them.
const Schema& EnvelopeOnly() {
  static const Schema schema;
  return schema;
}

const Schema& SchemaOfBlock(const BlockEntry& entry) {
  if (entry.opaque) return OpaqueSchema();
  const Schema* const known = FindSchema(static_cast<event::Kind>(entry.kind_number));
  return known != nullptr ? *known : EnvelopeOnly();
}

// For an unknown kind only the types of its columns tell; those of a list's elements are not looked for.
bool MayHaveTexts(const BlockEntry& entry, std::span<const std::byte> bytes) {
  const Schema& schema = SchemaOfBlock(entry);
  if (&schema != &EnvelopeOnly()) return schema.has_texts;
  ByteReader in(bytes);
  for (uint64_t left = in.LoadVarint(); left > 0 && in.ok(); --left) {
    const auto type = in.Load<ColumnType>();
    in.Take(in.Load<uint32_t>());
    if (type != ColumnType::kInteger && type != ColumnType::kDouble) return true;
  }
  return !in.ok();
}

}  // namespace

bool CheckedChunk::sound() const {
  return texts_sound && std::ranges::all_of(blocks, [](const CheckedBlock& block) {
           return block.state == BlockState::kSound;
         });
}

CheckedChunk ChunkChecker::Check(const ChunkHeader& header, std::span<const std::byte> body) {
  CheckedChunk checked;
  // DecodeChunkHeader() has made sure that texts and blocks fit in the body.
  const std::span<const std::byte> texts = body.first(header.text_stored_bytes);
  checked.texts_sound =
      Checksum(texts) == header.text_checksum && texts_.Decode(texts, header.text_count, decompressor_);
  if (!checked.texts_sound) texts_.Clear();
  size_t offset = texts.size();
  for (const BlockEntry& entry : header.blocks) {
    const std::span<const std::byte> bytes = body.subspan(offset, entry.stored_bytes);
    offset += bytes.size();
    CheckedBlock& block = checked.blocks.emplace_back();
    if (Checksum(bytes) != entry.checksum) {
      block.state = BlockState::kDamaged;
      continue;
    }
    CheckRows(header, entry, bytes, block);
    const bool loses_texts = !checked.texts_sound && MayHaveTexts(entry, bytes);
    if (loses_texts && block.state == BlockState::kSound) block.state = BlockState::kWithoutTexts;
  }
  return checked;
}

void ChunkChecker::CheckRows(const ChunkHeader& header, const BlockEntry& entry,
                             std::span<const std::byte> bytes, CheckedBlock& block) {
  bool pids_listed = true;
  uint32_t last_pid = 0;
  bool whole = decoder_.Open(entry, SchemaOfBlock(entry), bytes, texts_, decompressor_);
  while (whole && decoder_.NextBatch() != 0) {
    for (const event::Envelope& envelope : decoder_.envelopes()) {
      block.min_ts_ns = std::min(block.min_ts_ns, envelope.ts_ns);
      block.max_ts_ns = std::max(block.max_ts_ns, envelope.ts_ns);
      block.min_seq = std::min(block.min_seq, envelope.seq);
      if (envelope.pid == last_pid) continue;
      last_pid = envelope.pid;
      pids_listed &=
          last_pid == 0 || header.pids.empty() || std::ranges::binary_search(header.pids, last_pid);
    }
  }
  if (!whole || !decoder_.ok()) {
    block.state = BlockState::kMalformed;
    return;
  }
  const bool within =
      entry.event_count == 0 || (block.min_ts_ns >= header.min_ts_ns && block.max_ts_ns <= header.max_ts_ns &&
                                 block.min_seq >= header.first_seq);
  if (!within || !pids_listed) block.state = BlockState::kContradicted;
}

}  // namespace smeltr::session
