// Records in the order of their keys, however many there are: sorted in memory piece by piece, the pieces on
// disk, merged while they are read back. Memory: one piece, and 64 KiB for each one on disk.
//
// Traces need it: torch.profiler writes thread after thread and kernels before the calls that launched them,
// but a kernel belongs to the scope that was open on its thread when it was launched.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "session/byte_buffer.h"

namespace smeltr::session {

struct SortKey {
  int64_t time_ns = 0;
  uint64_t rank = 0;      // Among those of one time, the smaller first.
  uint64_t sequence = 0;  // Set by Add(): among equal ones, the first added first.
  friend auto operator<=>(const SortKey&, const SortKey&) = default;
};

class ImportSorter {
 public:
  static constexpr size_t kMaxRecordBytes = size_t{1} << 20;

  // `directory` is created when it is needed; its files have no names, so that nothing stays.
  explicit ImportSorter(std::filesystem::path directory, size_t memory_bytes = size_t{48} << 20)
      : directory_(std::move(directory)), memory_bytes_(memory_bytes) {}

  // Copies the record, at most kMaxRecordBytes. The error is that of the disk.
  Result<void> Add(SortKey key, std::span<const std::byte> record);
  // Once, after the last Add(). `record` is valid during the call.
  Result<void> ForEach(
      const std::function<void(const SortKey& key, std::span<const std::byte> record)>& visit);

  uint64_t count() const { return next_sequence_; }
  size_t pieces_on_disk() const { return pieces_.size(); }

 private:
  struct Entry {
    SortKey key;
    size_t offset;
    uint32_t size;
  };
  class PieceReader;
  void SortPiece();
  Result<void> StorePiece();
  std::span<const std::byte> RecordOf(const Entry& entry) const {
    return bytes_.view().subspan(entry.offset, entry.size);
  }

  std::filesystem::path directory_;
  size_t memory_bytes_;
  std::vector<Entry> entries_;
  ByteBuffer bytes_;
  std::vector<Fd> pieces_;
  uint64_t next_sequence_ = 0;
};

}  // namespace smeltr::session
