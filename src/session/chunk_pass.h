// One pass over chunks of a file: finds the selected blocks in their headers, reads and decodes those.
#pragma once

#include <functional>
#include <map>
#include <vector>

#include "base/fd.h"
#include "session/block_decoder.h"
#include "session/index.h"
#include "session/reader.h"

namespace smeltr::session {

// Whether the header leaves it possible that the chunk has selected events.
bool MayHaveSelected(const ChunkHeader& header, const Selection& selection);

// Memory is that of the largest block. Not thread-safe; threads have a pass each.
class ChunkPass {
 public:
  // Both must outlive the pass.
  ChunkPass(const Fd& fd, const Selection& selection) : fd_(fd), selection_(selection) {}

  using Visit = std::function<void(const Batch&)>;
  // `block`, one of the chunk's, was not readable.
  using OnDamage = std::function<void(size_t block)>;
  void Read(const StoredChunk& chunk, const Visit& visit, const OnDamage& on_damage);

  const ReadStats& stats() const { return stats_; }

 private:
  // False when it is damaged.
  bool ReadBlock(const BlockEntry& entry, uint64_t offset, const Visit& visit);
  void VisitBatch(const BlockEntry& entry, const Visit& visit);
  bool ReadTexts();
  bool ReadBytes(uint64_t offset, uint32_t size, uint64_t checksum, std::vector<std::byte>& bytes);
  const ColumnPick& PickOf(const Schema& schema);

  const Fd& fd_;
  const Selection& selection_;
  ReadStats stats_;
  Decompressor decompressor_;
  BlockDecoder decoder_;
  std::map<const Schema*, ColumnPick> picks_;
  // Of the chunk being read.
  const StoredChunk* chunk_ = nullptr;
  RowFilter filter_;
  bool texts_read_ = false;
  bool texts_good_ = false;
  std::vector<std::byte> text_bytes_;
  std::vector<std::byte> block_bytes_;
  StoredTexts texts_;
};

}  // namespace smeltr::session
