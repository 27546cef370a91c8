#include "session/chunk_file.h"

#include <algorithm>
#include <utility>

#include "event/names.h"
#include "session/chunk_header.h"
#include "session/footer.h"

namespace smeltr::session {
namespace {

// The header of `chunk`, if its lengths are those of the whole.
std::optional<ChunkHeader> HeaderOf(std::span<const std::byte> chunk) {
  if (chunk.size() < kChunkFixedBytes) return std::nullopt;
  const std::optional<uint32_t> header_bytes = ClaimedHeaderBytes(chunk.first(kChunkFixedBytes));
  if (!header_bytes || *header_bytes > chunk.size()) return std::nullopt;
  std::optional<ChunkHeader> header = DecodeChunkHeader(chunk.first(*header_bytes));
  if (header && header->chunk_bytes() != chunk.size()) return std::nullopt;
  return header;
}

std::string KindNameOf(const BlockEntry& block) {
  return std::string(event::KindName(block.api, static_cast<event::Kind>(block.kind_number)).view());
}

}  // namespace

Result<ChunkFileWriter> ChunkFileWriter::Create(const std::filesystem::path& file) {
  SMELTR_ASSIGN_OR_RETURN(auto append_file, CreateAppendFile(file));
  ChunkFileWriter writer(std::move(append_file));
  ByteBuffer header;
  PutFileHeader(header);
  SMELTR_TRY(writer.file_->WriteAt(0, header.view()));
  writer.stats_.file_bytes = header.size();
  return writer;
}

Result<void> ChunkFileWriter::Append(std::span<const std::byte> chunk) {
  const std::optional<ChunkHeader> header = HeaderOf(chunk);
  if (!header) return Fail(ErrorCode::kCorrupt, "not one whole chunk of a session");
  SMELTR_TRY(file_->WriteAt(stats_.file_bytes, chunk));
  stats_.file_bytes += chunk.size();
  ++stats_.chunk_count;
  if (header->event_count == 0) return {};
  stats_.min_ts_ns =
      stats_.event_count == 0 ? header->min_ts_ns : std::min(stats_.min_ts_ns, header->min_ts_ns);
  stats_.max_ts_ns = std::max(stats_.max_ts_ns, header->max_ts_ns);
  stats_.event_count += header->event_count;
  for (const BlockEntry& block : header->blocks)
    stats_.counts_by_kind[KindNameOf(block)] += block.event_count;
  return {};
}

Result<void> ChunkFileWriter::Close() {
  SMELTR_ASSIGN_OR_RETURN(stats_.file_bytes, WriteFooter(*file_, stats_.file_bytes, stats_.chunk_count));
  return file_->Sync();
}

}  // namespace smeltr::session
