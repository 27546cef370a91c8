#include "session/index.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>

#include "session/chunk_header.h"
#include "session/format.h"

namespace smeltr::session {
namespace {

constexpr size_t kUsualHeaderBytes = 4096;
constexpr size_t kSearchBytes = size_t{1} << 20;

// Walks the chunks from the front; after damage, goes on at the next chunk that holds.
class Scanner {
 public:
  Scanner(const Fd& fd, Index& index) : fd_(fd), index_(index) {}

  void Scan(uint64_t offset) {
    while (offset < index_.file_bytes) {
      if (std::optional<ChunkHeader> header = ReadHeader(offset)) {
        if (!Fits(offset, *header)) break;
        const uint64_t end = offset + header->chunk_bytes();
        index_.chunks.push_back({offset, std::move(*header)});
        offset = end;
        continue;
      }
      if (IsFooter(offset)) return;
      const uint64_t found = Resynchronise(offset + 1);
      if (found == index_.file_bytes) break;
      index_.damage.skipped_bytes += found - offset;
      ++index_.damage.skipped_chunks;
      offset = found;
    }
    if (offset == index_.file_bytes) return;
    index_.damage.torn_tail = true;
    index_.damage.skipped_bytes += index_.file_bytes - offset;
  }

  std::optional<ChunkHeader> ReadHeader(uint64_t offset) {
    if (index_.file_bytes - offset < kChunkFixedBytes) return std::nullopt;
    buffer_.resize(std::min<uint64_t>(kUsualHeaderBytes, index_.file_bytes - offset));
    buffer_.resize(ReadUpTo(fd_, offset, buffer_));
    const std::optional<uint32_t> header_bytes = ClaimedHeaderBytes(buffer_);
    if (!header_bytes || *header_bytes > index_.file_bytes - offset) return std::nullopt;
    if (*header_bytes > buffer_.size()) {
      buffer_.resize(*header_bytes);
      if (ReadUpTo(fd_, offset, buffer_) != buffer_.size()) return std::nullopt;
    }
    return DecodeChunkHeader(std::span(buffer_).first(*header_bytes));
  }

 private:
  bool Fits(uint64_t offset, const ChunkHeader& header) const {
    return header.chunk_bytes() <= index_.file_bytes - offset;
  }

  bool IsFooter(uint64_t offset) {
    std::array<std::byte, kFooterMagic.size()> magic;
    return ReadUpTo(fd_, offset, magic) == magic.size() &&
           std::ranges::equal(magic, std::as_bytes(std::span(kFooterMagic)));
  }

  // The next chunk header that holds, its body may be cut off; the end of the file when there is none.
  uint64_t Resynchronise(uint64_t offset) {
    const std::span<const std::byte> magic = std::as_bytes(std::span(kChunkMagic));
    std::vector<std::byte> window;
    while (offset < index_.file_bytes) {
      window.resize(std::min<uint64_t>(kSearchBytes, index_.file_bytes - offset));
      window.resize(ReadUpTo(fd_, offset, window));
      if (window.size() < magic.size()) break;
      auto place = window.begin();
      while ((place = std::search(place, window.end(), magic.begin(), magic.end())) != window.end()) {
        const uint64_t candidate = offset + static_cast<uint64_t>(place - window.begin());
        if (ReadHeader(candidate)) return candidate;
        ++place;
      }
      offset += window.size() - (magic.size() - 1);
    }
    return index_.file_bytes;
  }

  const Fd& fd_;
  Index& index_;
  std::vector<std::byte> buffer_;
};

enum class FileHeader { kGood, kCut, kBad, kOlder, kNewer };

FileHeader ReadFileHeader(const Fd& fd) {
  std::array<std::byte, kFileHeaderBytes> bytes;
  const size_t count = ReadUpTo(fd, 0, bytes);
  ByteReader in{std::span(bytes).first(count)};
  const size_t magic_bytes = std::min(count, kFileMagic.size());
  if (in.TakeText(magic_bytes) != kFileMagic.substr(0, magic_bytes)) return FileHeader::kBad;
  if (count < kFileHeaderBytes) return FileHeader::kCut;
  const auto major = in.Load<uint16_t>();
  if (major == kFormatMajor) return FileHeader::kGood;
  if (!FileHeaderChecksumHolds(bytes)) return FileHeader::kBad;
  return major < kFormatMajor ? FileHeader::kOlder : FileHeader::kNewer;
}

}  // namespace

Result<Index> LoadIndex(const Fd& fd) {
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return Fail(ErrorCode::kCorrupt, "not a session's event file");
  }
  Index index;
  index.file_bytes = static_cast<uint64_t>(status.st_size);
  Scanner scanner(fd, index);
  bool header_holds = true;
  switch (ReadFileHeader(fd)) {
    case FileHeader::kGood:
      break;
    case FileHeader::kCut:
      index.damage.skipped_bytes = index.file_bytes;
      index.damage.torn_tail = index.file_bytes != 0;
      index.damage.no_footer = true;
      return index;
    case FileHeader::kOlder:
      return Fail(ErrorCode::kUnsupported,
                  "the session is of an early smeltr whose file format is no longer read; record it again");
    case FileHeader::kNewer:
      return Fail(
          ErrorCode::kUnsupported,
          "the session was written by a newer smeltr with another file format; upgrade smeltr to read it");
    case FileHeader::kBad:
      if (index.file_bytes < kFileHeaderBytes) return Fail(ErrorCode::kCorrupt, "not a session's event file");
      // Perhaps the damaged first block of a real file: its index or chunks tell.
      header_holds = false;
      index.damage.skipped_bytes = kFileHeaderBytes;
      break;
  }
  if (std::optional<std::vector<StoredChunk>> chunks = ReadFooter(fd, index.file_bytes)) {
    index.chunks = std::move(*chunks);
    return index;
  }
  index.damage.no_footer = true;
  scanner.Scan(kFileHeaderBytes);
  if (!header_holds && index.chunks.empty()) return Fail(ErrorCode::kCorrupt, "not a session's event file");
  return index;
}

}  // namespace smeltr::session
