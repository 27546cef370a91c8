// One column of numbers, to bytes and back.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "session/byte_buffer.h"
#include "session/compress.h"
#include "session/format.h"

namespace smeltr::session {

// Another column whose values lie near: a begin beside its end.
struct NearColumn {
  size_t index = 0;  // In the block.
  std::span<const uint64_t> values;
};

// Appends the column's bytes: transform, base, and what the transform needs. `values` is used as scratch.
// What the column holds (ColumnType) and its length stand before it: PutColumn() does that.
void EncodeColumn(std::span<uint64_t> values, const NearColumn* near, Compressor& compressor,
                  ByteBuffer& scratch, ByteBuffer& out);
inline void EncodeColumn(std::span<uint64_t> values, Compressor& compressor, ByteBuffer& scratch,
                         ByteBuffer& out) {
  EncodeColumn(values, nullptr, compressor, scratch, out);
}

// Which way to store a column is decided by a sample: what its values take, less what they have in common, is
// the better guide to what compresses than the widest value of all. The stride is odd, because what repeats
// itself does so in even periods more often.
inline constexpr size_t kSampledValues = 128;  // About; fewer than twice as many.
constexpr size_t SampleStride(size_t count) { return count / kSampledValues | 1; }
// Bits that the sample takes without base and factor.
uint64_t PlainBits(std::span<const uint64_t> sample);
// Bits that a sample of the column takes in its best transform.
uint64_t CheapestSampledBits(std::span<const uint64_t> values);

// A column with its type and length before it, so that a reader can step over what it does not know.
// `put` appends its bytes.
template <typename Put>
void PutColumn(ColumnType type, ByteBuffer& out, Put put) {
  out.Put(type);
  const size_t length_position = out.size();
  out.Put(uint32_t{0});
  put();
  out.PutAt(length_position, static_cast<uint32_t>(out.size() - length_position - sizeof(uint32_t)));
}

// Reads a column in pieces. Trusts nothing: Open() says false, and everything after it is memory-safe.
class ColumnCursor {
 public:
  // Takes exactly one column of `count` values from `in`.
  bool Open(ByteReader& in, size_t count, Decompressor& decompressor);

  bool constant() const { return transform_ == Transform::kConstant; }
  uint64_t base() const { return base_; }
  // The column whose value of the same row is to be added to each of Next(), if there is one.
  std::optional<uint64_t> near_column() const;
  // The same of a column that was not opened.
  static std::optional<uint64_t> NearColumnOf(std::span<const std::byte> column);

  // The next values.size() values; zeros past the end.
  void Next(std::span<uint64_t> values);
  // Back to the first value.
  void Rewind() {
    position_ = 0;
    previous_ = base_;
  }

  // Byte 0 of all values, byte 1 of all values ... Each points into the input or into storage_.
  using Planes = std::array<const std::byte*, sizeof(uint64_t)>;

 private:
  struct Plane {
    std::unique_ptr<std::byte[]> bytes;
    size_t size = 0;
  };
  std::span<std::byte> Storage(size_t plane, size_t size);
  bool OpenPlanes(ByteReader& in, Decompressor& decompressor);
  void NextDelta(std::span<uint64_t> values);

  Transform transform_ = Transform::kConstant;
  unsigned width_ = 0;
  uint64_t near_column_ = 0;
  uint64_t base_ = 0;
  uint64_t factor_ = 1;
  uint64_t min_step_ = 0;
  uint64_t previous_ = 0;
  size_t count_ = 0;
  size_t position_ = 0;
  Planes planes_{};
  std::vector<Plane> storage_;  // Kept from column to column.
};

}  // namespace smeltr::session
