// One events file. Declared in repair.h.
#include <algorithm>
#include <utility>
#include <vector>

#include "session/chunk_check.h"
#include "session/chunk_file.h"
#include "session/index.h"
#include "session/repair.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

bool IsKept(const CheckedBlock& block) {
  return block.state == BlockState::kSound || block.state == BlockState::kContradicted;
}

// What is sound of a chunk, under a header of its own; false when nothing is.
bool RebuildChunk(const ChunkHeader& header, std::span<const std::byte> body, const CheckedChunk& checked,
                  ByteBuffer& out) {
  ChunkHeader rebuilt;
  rebuilt.first_seq = rebuilt.min_ts_ns = UINT64_MAX;
  ByteBuffer rebuilt_body;
  if (checked.texts_sound) {
    rebuilt.text_count = header.text_count;
    rebuilt_body.PutBytes(body.first(header.text_stored_bytes));
  } else {
    // A table without texts.
    Compressor compressor(1);
    ByteBuffer scratch;
    TextTable().Encode(compressor, scratch, rebuilt_body);
  }
  rebuilt.text_stored_bytes = static_cast<uint32_t>(rebuilt_body.size());
  rebuilt.text_checksum = Checksum(rebuilt_body.view());
  bool pids_hold = true;
  size_t offset = header.text_stored_bytes;
  for (size_t i = 0; i < header.blocks.size(); ++i) {
    const BlockEntry& entry = header.blocks[i];
    const CheckedBlock& block = checked.blocks[i];
    const std::span<const std::byte> bytes = body.subspan(offset, entry.stored_bytes);
    offset += bytes.size();
    if (!IsKept(block) || entry.event_count == 0) continue;
    pids_hold &= block.state == BlockState::kSound;
    rebuilt.blocks.push_back(entry);
    rebuilt_body.PutBytes(bytes);
    rebuilt.event_count += entry.event_count;
    rebuilt.first_seq = std::min(rebuilt.first_seq, block.min_seq);
    rebuilt.min_ts_ns = std::min(rebuilt.min_ts_ns, block.min_ts_ns);
    rebuilt.max_ts_ns = std::max(rebuilt.max_ts_ns, block.max_ts_ns);
  }
  if (rebuilt.event_count == 0) return false;
  if (pids_hold) rebuilt.pids = header.pids;
  rebuilt.body_bytes = static_cast<uint32_t>(rebuilt_body.size());
  out.Clear();
  EncodeChunkHeader(rebuilt, out);
  out.PutBytes(rebuilt_body.view());
  return true;
}

// Header and body of `chunk` as the file has them; the header as the index has it where the file's is
// damaged.
Result<void> ReadChunk(const Fd& fd, const StoredChunk& chunk, std::vector<std::byte>& bytes) {
  const ChunkHeader& header = chunk.header;
  bytes.resize(header.chunk_bytes());
  const size_t read = ReadUpTo(fd, chunk.offset, bytes);
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(read), bytes.end(), std::byte{0});
  if (DecodeChunkHeader(std::span(bytes).first(header.header_bytes))) return {};
  ChunkHeader copy = header;
  ByteBuffer encoded;
  EncodeChunkHeader(copy, encoded);
  // A newer writer's header may be longer than what is known of it.
  bytes.erase(bytes.begin(), bytes.begin() + header.header_bytes);
  bytes.insert(bytes.begin(), encoded.view().begin(), encoded.view().end());
  return {};
}

}  // namespace

Result<uint64_t> RepairFile(const std::filesystem::path& from, const std::filesystem::path& to) {
  SMELTR_ASSIGN_OR_RETURN(const Fd fd, OpenRegularFile(from));
  SMELTR_ASSIGN_OR_RETURN(const Index index, LoadIndex(fd));
  SMELTR_ASSIGN_OR_RETURN(ChunkFileWriter writer, ChunkFileWriter::Create(to));
  ChunkChecker checker;
  std::vector<std::byte> bytes;
  ByteBuffer rebuilt;
  for (const StoredChunk& chunk : index.chunks) {
    SMELTR_TRY(ReadChunk(fd, chunk, bytes));
    const std::span<const std::byte> body = std::span(bytes).last(chunk.header.body_bytes);
    const CheckedChunk checked = checker.Check(chunk.header, body);
    if (checked.sound()) {
      SMELTR_TRY(writer.Append(bytes));
    } else if (RebuildChunk(chunk.header, body, checked, rebuilt)) {
      SMELTR_TRY(writer.Append(rebuilt.view()));
    }
  }
  SMELTR_TRY(writer.Close());
  return writer.stats().event_count;
}

}  // namespace smeltr::session
