#include "session/footer.h"

#include <xxhash.h>

#include <array>
#include <memory>

namespace smeltr::session {
namespace {

constexpr size_t kWriteAt = size_t{256} << 10;
constexpr size_t kSmallestEntry = sizeof(uint64_t) + kChunkFixedBytes - kChunkMagic.size();

struct FreeHash {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

// Puts bytes behind each other in the file and hashes them on the way.
class HashedOutput {
 public:
  HashedOutput(AppendFile& file, uint64_t offset) : file_(file), offset_(offset), hash_(XXH3_createState()) {
    XXH3_64bits_reset(hash_.get());
  }

  ByteBuffer& buffer() { return buffer_; }
  uint64_t offset() const { return offset_; }

  Result<void> Flush() {
    XXH3_64bits_update(hash_.get(), buffer_.view().data(), buffer_.size());
    SMELTR_TRY(file_.WriteAt(offset_, buffer_.view()));
    offset_ += buffer_.size();
    buffer_.Clear();
    return {};
  }
  uint64_t checksum() const { return XXH3_64bits_digest(hash_.get()); }

 private:
  AppendFile& file_;
  uint64_t offset_;
  std::unique_ptr<XXH3_state_t, FreeHash> hash_;
  ByteBuffer buffer_;
};

std::optional<ChunkHeader> ReadHeader(AppendFile& file, uint64_t offset, std::vector<std::byte>& bytes) {
  bytes.resize(kChunkFixedBytes);
  if (!file.ReadAt(offset, bytes)) return std::nullopt;
  const std::optional<uint32_t> header_bytes = ClaimedHeaderBytes(bytes);
  if (!header_bytes) return std::nullopt;
  bytes.resize(*header_bytes);
  if (!file.ReadAt(offset, bytes)) return std::nullopt;
  return DecodeChunkHeader(bytes);
}

// One entry; moves `in` behind it.
std::optional<StoredChunk> TakeEntry(ByteReader& in) {
  StoredChunk chunk{.offset = in.Load<uint64_t>(), .header = {}};
  ByteReader ahead = in;
  ahead.Load<uint64_t>();
  const auto header_bytes = ahead.Load<uint32_t>();
  if (!ahead.ok() || header_bytes < kChunkFixedBytes || header_bytes > kMaxChunkHeaderBytes)
    return std::nullopt;
  const std::span<const std::byte> stored = in.Take(header_bytes - kChunkMagic.size());
  if (!in.ok()) return std::nullopt;
  ByteBuffer bytes;
  bytes.PutText(kChunkMagic);
  bytes.PutBytes(stored);
  std::optional<ChunkHeader> header = DecodeChunkHeader(bytes.view());
  if (!header) return std::nullopt;
  chunk.header = std::move(*header);
  return chunk;
}

}  // namespace

Result<uint64_t> WriteFooter(AppendFile& file, uint64_t offset, uint64_t chunk_count) {
  HashedOutput out(file, offset);
  out.buffer().PutText(kFooterMagic);
  std::vector<std::byte> bytes;
  uint64_t chunk_offset = kFileHeaderBytes;
  for (uint64_t i = 0; i < chunk_count; ++i) {
    const std::optional<ChunkHeader> header = ReadHeader(file, chunk_offset, bytes);
    if (!header)
      return Fail(ErrorCode::kIo, "the session's index was not written: a chunk cannot be read back");
    out.buffer().Put(chunk_offset);
    out.buffer().PutBytes(std::span(bytes).subspan(kChunkMagic.size()));
    if (out.buffer().size() >= kWriteAt) SMELTR_TRY(out.Flush());
    chunk_offset += header->chunk_bytes();
  }
  out.buffer().Put(offset);
  out.buffer().Put(chunk_count);
  SMELTR_TRY(out.Flush());
  out.buffer().Put(out.checksum());
  out.buffer().PutText(kTrailerMagic);
  SMELTR_TRY(out.Flush());
  return out.offset();
}

std::optional<std::vector<StoredChunk>> ReadFooter(const Fd& fd, uint64_t file_bytes) {
  if (file_bytes < kFileHeaderBytes + kFooterMagic.size() + kTrailerBytes) return std::nullopt;
  std::array<std::byte, kTrailerBytes> trailer_bytes;
  if (ReadUpTo(fd, file_bytes - kTrailerBytes, trailer_bytes) != kTrailerBytes) return std::nullopt;
  ByteReader trailer(trailer_bytes);
  const auto offset = trailer.Load<uint64_t>();
  const auto chunk_count = trailer.Load<uint64_t>();
  const auto checksum = trailer.Load<uint64_t>();
  if (trailer.TakeText(kTrailerMagic.size()) != kTrailerMagic) return std::nullopt;
  constexpr size_t kAfterNumbers = sizeof(checksum) + kTrailerMagic.size();
  if (offset < kFileHeaderBytes || offset > file_bytes - kTrailerBytes - kFooterMagic.size())
    return std::nullopt;
  std::vector<std::byte> bytes(file_bytes - offset - kAfterNumbers);
  if (chunk_count > bytes.size() / kSmallestEntry) return std::nullopt;
  if (ReadUpTo(fd, offset, bytes) != bytes.size() || Checksum(bytes) != checksum) return std::nullopt;

  ByteReader in(bytes);
  if (in.TakeText(kFooterMagic.size()) != kFooterMagic) return std::nullopt;
  std::vector<StoredChunk> chunks;
  chunks.reserve(chunk_count);
  uint64_t end = kFileHeaderBytes;
  for (uint64_t i = 0; i < chunk_count; ++i) {
    std::optional<StoredChunk> chunk = TakeEntry(in);
    if (!chunk || chunk->offset < end || chunk->offset > offset ||
        chunk->header.chunk_bytes() > offset - chunk->offset) {
      return std::nullopt;
    }
    end = chunk->offset + chunk->header.chunk_bytes();
    chunks.push_back(std::move(*chunk));
  }
  return chunks;
}

}  // namespace smeltr::session
