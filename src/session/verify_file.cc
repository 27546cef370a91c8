// One events file. Declared in verify.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "event/names.h"
#include "session/chunk_check.h"
#include "session/index.h"
#include "session/verify.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

std::string KindNameOf(const BlockEntry& block) {
  return std::string(event::KindName(block.api, static_cast<event::Kind>(block.kind_number)).view());
}

bool IsKnown(const BlockEntry& block) {
  return !block.opaque && event::FindKind(static_cast<event::Kind>(block.kind_number)) != nullptr;
}

std::string_view Reason(BlockState state) {
  switch (state) {
    case BlockState::kSound:
      return "sound";
    case BlockState::kDamaged:
      return "its checksum does not hold";
    case BlockState::kMalformed:
      return "its columns cannot be decoded";
    case BlockState::kContradicted:
      return "its events are not those that the header tells of";
    case BlockState::kWithoutTexts:
      return "the chunk's texts are damaged, and it needs them";
  }
  return "unknown";
}

class FileVerifier {
 public:
  FileVerifier(const Fd& fd, const Index& index, bool still_written, const Progress& progress,
               VerifiedFile& report)
      : fd_(fd), index_(index), still_written_(still_written), progress_(progress), report_(report) {}

  void Verify() {
    CheckFileHeader();
    uint64_t expected = std::min<uint64_t>(kFileHeaderBytes, index_.file_bytes);
    for (const StoredChunk& chunk : index_.chunks) {
      if (chunk.offset > expected) Gap(expected, chunk);
      Check(chunk);
      last_ = &chunk;
      expected = chunk.offset + chunk.header.chunk_bytes();
      if (progress_) progress_(expected, index_.file_bytes);
    }
    report_.has_index = !index_.damage.no_footer;
    if (report_.has_index) {
      const uint64_t footer = index_.file_bytes - FooterBytes();
      if (footer > expected) {
        AddFault({.part = FaultyPart::kGap,
                  .text = "bytes between the last chunk and the index",
                  .offset = expected,
                  .bytes = footer - expected});
      }
    } else if (expected < index_.file_bytes) {
      Tail(expected);
    }
    if (progress_) progress_(index_.file_bytes, index_.file_bytes);
  }

 private:
  void AddFault(Fault fault) {
    fault.file = report_.name;
    ++report_.fault_count;
    if (report_.faults.size() < kMaxListedFaults) report_.faults.push_back(std::move(fault));
  }

  void CheckFileHeader() {
    std::array<std::byte, kFileHeaderBytes> bytes;
    const size_t count = ReadUpTo(fd_, 0, bytes);
    // A new file has none yet; the start of one is what a cut leaves.
    if (count < bytes.size()) {
      if (count > 0 && !still_written_) {
        AddFault({.part = FaultyPart::kTornTail, .text = "the file ends inside its header", .bytes = count});
      }
      return;
    }
    if (FileHeaderHolds(bytes)) return;
    AddFault({.part = FaultyPart::kFileHeader,
              .text = "the file's header is damaged; its chunks are read all the same",
              .bytes = count,
              .lost_events = 0});
  }

  uint64_t FooterBytes() const {
    uint64_t bytes = kFooterMagic.size() + kTrailerBytes;
    for (const StoredChunk& chunk : index_.chunks) bytes += chunk.header.header_bytes;
    return bytes;
  }

  // What lay between the last chunk and `next`, by the seqs around it: no other chunk has those.
  void Gap(uint64_t offset, const StoredChunk& next) {
    Fault fault{.part = FaultyPart::kGap,
                .text = "no chunk can be found here",
                .offset = offset,
                .bytes = next.offset - offset};
    if (last_ != nullptr && next.header.first_seq >= EndSeq(*last_)) {
      fault.lost_events = next.header.first_seq - EndSeq(*last_);
      fault.begin_ns = std::min(last_->header.max_ts_ns, next.header.min_ts_ns);
      fault.end_ns = std::max(last_->header.max_ts_ns, next.header.min_ts_ns);
    }
    AddFault(std::move(fault));
  }

  // Behind the last chunk of a file without a valid index: a chunk or an index that is not all there.
  void Tail(uint64_t offset) {
    const uint64_t bytes = index_.file_bytes - offset;
    if (IsIndex(offset)) {
      // While it is being written, nobody can tell a part of it from a damaged one.
      if (still_written_) return;
      return AddFault({.part = FaultyPart::kIndex,
                       .text = "the index is damaged; the chunks were found without it",
                       .offset = offset,
                       .bytes = bytes,
                       .lost_events = 0});
    }
    if (still_written_) return;
    Fault fault{.part = FaultyPart::kTornTail,
                .text = "the file ends inside a chunk: its writer was cut off",
                .offset = offset,
                .bytes = bytes};
    if (const std::optional<ChunkHeader> header = HeaderAt(offset)) {
      fault.lost_events = header->event_count;
      fault.begin_ns = header->min_ts_ns;
      fault.end_ns = header->max_ts_ns;
      for (const BlockEntry& block : header->blocks)
        fault.lost_by_kind[KindNameOf(block)] += block.event_count;
    }
    AddFault(std::move(fault));
  }

  bool IsIndex(uint64_t offset) const {
    const auto has = [&](uint64_t at, std::string_view magic) {
      std::array<std::byte, kFooterMagic.size()> bytes;
      return ReadUpTo(fd_, at, bytes) == bytes.size() &&
             std::ranges::equal(bytes, std::as_bytes(std::span(magic)));
    };
    static_assert(kFooterMagic.size() == kTrailerMagic.size());
    return has(offset, kFooterMagic) || has(index_.file_bytes - kTrailerMagic.size(), kTrailerMagic);
  }

  std::optional<ChunkHeader> HeaderAt(uint64_t offset) const {
    std::vector<std::byte> bytes(kChunkFixedBytes);
    if (ReadUpTo(fd_, offset, bytes) != bytes.size()) return std::nullopt;
    const std::optional<uint32_t> header_bytes = ClaimedHeaderBytes(bytes);
    if (!header_bytes) return std::nullopt;
    bytes.resize(*header_bytes);
    if (ReadUpTo(fd_, offset, bytes) != bytes.size()) return std::nullopt;
    return DecodeChunkHeader(bytes);
  }

  void Check(const StoredChunk& chunk) {
    const ChunkHeader& header = chunk.header;
    ++report_.chunk_count;
    report_.next_seq = std::max(report_.next_seq, EndSeq(chunk));
    if (!index_.damage.no_footer && !HeaderAt(chunk.offset)) {
      AddFault({.part = FaultyPart::kChunkHeader,
                .text = "the chunk's header is damaged; the index has a copy of it",
                .offset = chunk.offset,
                .bytes = header.header_bytes,
                .lost_events = 0});
    }
    body_.resize(header.body_bytes);
    // A file that shrinks meanwhile has zeros here.
    const size_t read = ReadUpTo(fd_, chunk.offset + header.header_bytes, body_);
    std::fill(body_.begin() + static_cast<ptrdiff_t>(read), body_.end(), std::byte{0});
    const CheckedChunk checked = checker_.Check(header, body_);
    uint64_t offset = chunk.offset + header.header_bytes;
    if (!checked.texts_sound) {
      AddFault({.part = FaultyPart::kTexts,
                .text = "the chunk's texts are damaged",
                .offset = offset,
                .bytes = header.text_stored_bytes,
                .lost_events = 0});
    }
    offset += header.text_stored_bytes;
    for (size_t i = 0; i < header.blocks.size(); ++i) {
      Note(chunk, header.blocks[i], checked.blocks[i], offset);
      offset += header.blocks[i].stored_bytes;
    }
  }

  void Note(const StoredChunk& chunk, const BlockEntry& entry, const CheckedBlock& block, uint64_t offset) {
    const std::string kind = KindNameOf(entry);
    const bool sound = block.state == BlockState::kSound;
    const bool readable = sound || block.state == BlockState::kContradicted;
    if (readable) {
      report_.event_count += entry.event_count;
      report_.counts_by_kind[kind] += entry.event_count;
      if (!IsKnown(entry)) report_.unknown_kind_events += entry.event_count;
    }
    if (sound) return;
    const uint64_t lost = readable ? 0 : entry.event_count;
    Fault fault{.part = FaultyPart::kBlock,
                .text = fmt::format("{}: {}", kind, Reason(block.state)),
                .offset = offset,
                .bytes = entry.stored_bytes,
                .lost_events = lost,
                .begin_ns = chunk.header.min_ts_ns,
                .end_ns = chunk.header.max_ts_ns};
    if (lost != 0) fault.lost_by_kind[kind] = lost;
    AddFault(std::move(fault));
  }

  static uint64_t EndSeq(const StoredChunk& chunk) {
    return chunk.header.first_seq + chunk.header.event_count;
  }

  const Fd& fd_;
  const Index& index_;
  bool still_written_;
  const Progress& progress_;
  VerifiedFile& report_;
  const StoredChunk* last_ = nullptr;
  ChunkChecker checker_;
  std::vector<std::byte> body_;
};

}  // namespace

Result<VerifiedFile> VerifyFile(const std::filesystem::path& file, bool still_written,
                                const Progress& progress) {
  VerifiedFile report{.name = file.filename().native()};
  SMELTR_ASSIGN_OR_RETURN(const Fd fd, OpenRegularFile(file));
  SMELTR_ASSIGN_OR_RETURN(const Index index, LoadIndex(fd));
  report.file_bytes = index.file_bytes;
  FileVerifier(fd, index, still_written, progress, report).Verify();
  return report;
}

}  // namespace smeltr::session
