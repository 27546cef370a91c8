#include "session/chunk_header.h"

#include <xxhash.h>

namespace smeltr::session {
namespace {

uint32_t FileHeaderChecksum(std::span<const std::byte> bytes) {
  return static_cast<uint32_t>(Checksum(bytes));
}

}  // namespace

uint64_t Checksum(std::span<const std::byte> bytes) { return XXH3_64bits(bytes.data(), bytes.size()); }

void PutFileHeader(ByteBuffer& out) {
  const size_t start = out.size();
  out.PutText(kFileMagic);
  out.Put(kFormatMajor);
  out.Put(kFormatMinor);
  out.Put(FileHeaderChecksum(out.view().subspan(start)));
}

bool FileHeaderChecksumHolds(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  const auto checked = in.Take(kFileHeaderBytes - sizeof(uint32_t));
  const auto checksum = in.Load<uint32_t>();
  return in.ok() && (checksum == 0 || checksum == FileHeaderChecksum(checked));
}

bool FileHeaderHolds(std::span<const std::byte> bytes) {
  ByteReader in(bytes);
  return in.TakeText(kFileMagic.size()) == kFileMagic && in.Load<uint16_t>() == kFormatMajor &&
         FileHeaderChecksumHolds(bytes);
}

void EncodeChunkHeader(ChunkHeader& header, ByteBuffer& out) {
  const size_t start = out.size();
  header.header_bytes = static_cast<uint32_t>(kChunkFixedBytes + header.blocks.size() * kBlockEntryBytes +
                                              header.pids.size() * sizeof(uint32_t));
  out.PutText(kChunkMagic);
  out.Put(uint64_t{0});
  out.Put(header.header_bytes);
  out.Put(header.body_bytes);
  out.Put(header.first_seq);
  out.Put(header.min_ts_ns);
  out.Put(header.max_ts_ns);
  out.Put(header.event_count);
  out.Put(static_cast<uint16_t>(header.blocks.size()));
  out.Put(static_cast<uint16_t>(header.pids.size()));
  out.Put(header.text_count);
  out.Put(header.text_stored_bytes);
  out.Put(header.text_checksum);
  for (const BlockEntry& block : header.blocks) {
    out.Put(block.kind_number);
    out.Put(block.api);
    out.Put(block.opaque ? kBlockOpaque : uint8_t{0});
    out.Put(block.event_count);
    out.Put(block.stored_bytes);
    out.Put(uint32_t{0});
    out.Put(block.checksum);
  }
  for (const uint32_t pid : header.pids) out.Put(pid);
  out.PutAt(start + kChunkMagic.size(), Checksum(out.view().subspan(start + kChunkChecksummedFrom)));
}

std::optional<uint32_t> ClaimedHeaderBytes(std::span<const std::byte> fixed) {
  ByteReader in(fixed);
  if (in.TakeText(kChunkMagic.size()) != kChunkMagic) return std::nullopt;
  in.Load<uint64_t>();
  const auto bytes = in.Load<uint32_t>();
  if (!in.ok() || bytes < kChunkFixedBytes || bytes > kMaxChunkHeaderBytes) return std::nullopt;
  return bytes;
}

std::optional<ChunkHeader> DecodeChunkHeader(std::span<const std::byte> bytes) {
  const std::optional<uint32_t> claimed = ClaimedHeaderBytes(bytes);
  if (!claimed || *claimed != bytes.size()) return std::nullopt;
  ByteReader in(bytes);
  in.Take(kChunkMagic.size());
  if (in.Load<uint64_t>() != Checksum(bytes.subspan(kChunkChecksummedFrom))) return std::nullopt;
  ChunkHeader header;
  header.header_bytes = in.Load<uint32_t>();
  header.body_bytes = in.Load<uint32_t>();
  header.first_seq = in.Load<uint64_t>();
  header.min_ts_ns = in.Load<uint64_t>();
  header.max_ts_ns = in.Load<uint64_t>();
  header.event_count = in.Load<uint32_t>();
  const auto block_count = in.Load<uint16_t>();
  const auto pid_count = in.Load<uint16_t>();
  header.text_count = in.Load<uint32_t>();
  header.text_stored_bytes = in.Load<uint32_t>();
  header.text_checksum = in.Load<uint64_t>();
  if (block_count > kMaxBlocks || header.body_bytes > kMaxChunkBodyBytes) return std::nullopt;
  uint64_t events = 0;
  uint64_t stored_bytes = header.text_stored_bytes;
  for (uint16_t i = 0; i < block_count; ++i) {
    BlockEntry block;
    block.kind_number = in.Load<uint16_t>();
    const auto api = in.Load<event::Api>();
    block.api = static_cast<size_t>(api) < event::kEnumSize<event::Api> ? api : event::Api::kNone;
    block.opaque = (in.Load<uint8_t>() & kBlockOpaque) != 0;
    block.event_count = in.Load<uint32_t>();
    block.stored_bytes = in.Load<uint32_t>();
    in.Load<uint32_t>();
    block.checksum = in.Load<uint64_t>();
    events += block.event_count;
    stored_bytes += block.stored_bytes;
    header.blocks.push_back(block);
  }
  for (uint16_t i = 0; i < pid_count; ++i) header.pids.push_back(in.Load<uint32_t>());
  if (!in.ok() || events != header.event_count || events > kMaxChunkEvents ||
      stored_bytes > header.body_bytes) {
    return std::nullopt;
  }
  return header;
}

}  // namespace smeltr::session
