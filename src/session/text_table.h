// The texts of one chunk: each stored once, known by a small number. 0 is the empty text.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "session/byte_buffer.h"
#include "session/column.h"
#include "session/compress.h"

namespace smeltr::session {

class TextTable {
 public:
  TextTable();

  // The number of `text`, cut to event::kMaxTextBytes; copies it when it is new.
  uint32_t Intern(std::string_view text);
  // The text of a number that Intern() gave.
  std::string_view Find(uint64_t number) const {
    return number == 0 ? std::string_view() : View(entries_[number - 1]);
  }
  size_t count() const { return entries_.size(); }
  size_t text_bytes() const { return bytes_.size(); }

  void Encode(Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) const;
  // Forgets the texts; keeps memory, but not more than an ordinary chunk needs.
  void Clear();

 private:
  struct Entry {
    uint64_t hash;
    uint32_t offset;
    uint32_t length;
  };
  std::string_view View(const Entry& entry) const { return {bytes_.data() + entry.offset, entry.length}; }
  void Grow();

  std::vector<Entry> entries_;
  std::vector<char> bytes_;
  std::vector<uint32_t> slots_;  // Open addressing, power of two; index into entries_ + 1, 0 = free.
};

// The same, read back.
class StoredTexts {
 public:
  // False when `bytes` is not a table of `count` texts.
  bool Decode(std::span<const std::byte> bytes, uint32_t count, Decompressor& decompressor);
  // Empty for numbers that do not exist.
  std::string_view Find(uint64_t number) const {
    return number - 1 < texts_.size() ? texts_[number - 1] : std::string_view();
  }
  void Clear() { texts_.clear(); }

 private:
  std::vector<std::string_view> texts_;
  std::vector<std::byte> bytes_;
};

}  // namespace smeltr::session
