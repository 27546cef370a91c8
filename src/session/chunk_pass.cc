#include "session/chunk_pass.h"

#include <algorithm>

#include "event/names.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

bool IsSelected(const BlockEntry& block, const Selection& selection) {
  const auto number = static_cast<event::Kind>(block.kind_number);
  // Of a newer writer: counted, not read.
  if (!block.opaque && event::FindKind(number) == nullptr) return false;
  const event::Kind kind = block.opaque ? event::Kind::kUnknown : number;
  return selection.kinds.empty() || std::ranges::find(selection.kinds, kind) != selection.kinds.end();
}

const Schema& SchemaOf(const BlockEntry& block) {
  return block.opaque ? OpaqueSchema() : *FindSchema(static_cast<event::Kind>(block.kind_number));
}

// What of the selection the chunk's header leaves open.
RowFilter FilterFor(const ChunkHeader& header, const Selection& selection) {
  RowFilter filter{.pid = selection.pid};
  if (selection.queue_id) filter.queue_id = event::Raw(*selection.queue_id);
  if (header.min_ts_ns < selection.begin_ns || header.max_ts_ns > selection.end_ns) {
    filter.begin_ns = selection.begin_ns;
    filter.end_ns = selection.end_ns;
  }
  return filter;
}

}  // namespace

bool MayHaveSelected(const ChunkHeader& header, const Selection& selection) {
  if (header.event_count == 0) return false;
  if (header.max_ts_ns < selection.begin_ns || header.min_ts_ns > selection.end_ns) return false;
  // Pid 0 is never listed; nor is any in a chunk of very many.
  const bool pid_listed = !selection.pid || *selection.pid == 0 || header.pids.empty() ||
                          std::ranges::binary_search(header.pids, *selection.pid);
  return pid_listed && std::ranges::any_of(header.blocks, [&](const BlockEntry& block) {
           return IsSelected(block, selection);
         });
}

void ChunkPass::Read(const StoredChunk& chunk, const Visit& visit, const OnDamage& on_damage) {
  if (!MayHaveSelected(chunk.header, selection_)) return;
  ++stats_.chunk_count;
  chunk_ = &chunk;
  filter_ = FilterFor(chunk.header, selection_);
  texts_read_ = false;
  uint64_t offset = chunk.offset + chunk.header.header_bytes + chunk.header.text_stored_bytes;
  for (size_t i = 0; i < chunk.header.blocks.size(); ++i) {
    const BlockEntry& block = chunk.header.blocks[i];
    if (IsSelected(block, selection_) && !ReadBlock(block, offset, visit)) on_damage(i);
    offset += block.stored_bytes;
  }
}

bool ChunkPass::ReadBlock(const BlockEntry& entry, uint64_t offset, const Visit& visit) {
  ++stats_.block_count;
  const Schema& schema = SchemaOf(entry);
  if (!ReadBytes(offset, entry.stored_bytes, entry.checksum, block_bytes_) ||
      !decoder_.Enter(entry, schema, block_bytes_, decompressor_)) {
    return false;
  }
  const ColumnPick& pick = PickOf(schema);
  const bool any_row = decoder_.Filter(filter_);
  const bool started = any_row && (!NeedsTexts(schema, pick) || ReadTexts()) && decoder_.Start(pick, texts_);
  stats_.column_count += decoder_.opened_count();
  if (!any_row) return decoder_.ok();
  while (started && decoder_.NextBatch() != 0) VisitBatch(entry, visit);
  return started && decoder_.ok();
}

void ChunkPass::VisitBatch(const BlockEntry& entry, const Visit& visit) {
  const std::span<const event::Envelope> envelopes = decoder_.envelopes();
  if (entry.opaque) {
    auto* const rows = reinterpret_cast<event::Opaque*>(decoder_.rows());
    for (event::Opaque& row : std::span(rows, envelopes.size())) row.kind_number = entry.kind_number;
  }
  Batch batch{.kind = entry.opaque ? event::Kind::kUnknown : static_cast<event::Kind>(entry.kind_number),
              .api = entry.api,
              .envelopes = envelopes,
              .rows = decoder_.rows()};
  const std::span<const uint8_t> wanted = decoder_.wanted();
  if (wanted.empty()) return visit(batch);
  // Rows that stand together go together.
  for (auto begin = wanted.begin(); begin != wanted.end();) {
    begin = std::find(begin, wanted.end(), uint8_t{1});
    const auto end = std::find(begin, wanted.end(), uint8_t{0});
    const auto first = static_cast<size_t>(begin - wanted.begin());
    batch.envelopes = envelopes.subspan(first, static_cast<size_t>(end - begin));
    batch.rows = decoder_.rows() + first * SchemaOf(entry).row_bytes;
    if (begin != end) visit(batch);
    begin = end;
  }
}

const ColumnPick& ChunkPass::PickOf(const Schema& schema) {
  const auto place = picks_.find(&schema);
  if (place != picks_.end()) return place->second;
  return picks_.emplace(&schema, PickColumns(schema, selection_.fields)).first->second;
}

bool ChunkPass::ReadTexts() {
  if (texts_read_) return texts_good_;
  texts_read_ = true;
  const ChunkHeader& header = chunk_->header;
  texts_good_ = ReadBytes(chunk_->offset + header.header_bytes, header.text_stored_bytes,
                          header.text_checksum, text_bytes_) &&
                texts_.Decode(text_bytes_, header.text_count, decompressor_);
  return texts_good_;
}

bool ChunkPass::ReadBytes(uint64_t offset, uint32_t size, uint64_t checksum, std::vector<std::byte>& bytes) {
  bytes.resize(size);
  stats_.read_bytes += size;
  return ReadUpTo(fd_, offset, bytes) == size && Checksum(bytes) == checksum;
}

}  // namespace smeltr::session
