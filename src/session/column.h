// One column of numbers, to bytes and back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "session/byte_buffer.h"
#include "session/compress.h"
#include "session/format.h"

namespace smeltr::session {

// Appends the column's bytes: transform, base, and what the transform needs. `values` is used as scratch.
// What the column holds (ColumnType) and its length stand before it: block_builder.cc puts them there.
void EncodeColumn(std::span<uint64_t> values, Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out);

// Reads a column in pieces. Trusts nothing: Open() says false, and everything after it is memory-safe.
class ColumnCursor {
 public:
  // Takes exactly one column of `count` values from `in`.
  bool Open(ByteReader& in, size_t count, Decompressor& decompressor);

  bool constant() const { return transform_ == Transform::kConstant; }
  uint64_t base() const { return base_; }

  // The next values.size() values; zeros past the end.
  void Next(std::span<uint64_t> values);

  // Byte 0 of all values, byte 1 of all values ... Each points into the input or into storage_.
  using Planes = std::array<const std::byte*, sizeof(uint64_t)>;

 private:
  struct Plane {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  std::span<std::byte> Storage(size_t plane, size_t size);

  Transform transform_ = Transform::kConstant;
  unsigned width_ = 0;
  uint64_t base_ = 0;
  uint64_t min_step_ = 0;
  uint64_t previous_ = 0;
  size_t count_ = 0;
  size_t position_ = 0;
  Planes planes_{};
  std::vector<Plane> storage_;  // Kept from column to column.
};

}  // namespace smeltr::session
