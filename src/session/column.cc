#include "session/column.h"

#include <algorithm>
#include <bit>

namespace smeltr::session {
namespace {

constexpr unsigned BytesFor(uint64_t range) { return (static_cast<unsigned>(std::bit_width(range)) + 7) / 8; }

uint64_t Step(uint64_t value, uint64_t previous) { return ZigZag(static_cast<int64_t>(value - previous)); }

struct Range {
  uint64_t min = UINT64_MAX;
  uint64_t max = 0;
  void Add(uint64_t value) {
    min = std::min(min, value);
    max = std::max(max, value);
  }
  unsigned width() const { return BytesFor(max - min); }
};

// Bits that a sample of the values would need: the better guide to what compresses than the widest value.
template <typename ValueAt>
uint64_t SampledBits(size_t count, ValueAt value_at) {
  constexpr size_t kSamples = 128;
  const size_t stride = std::max<size_t>(1, count / kSamples);
  uint64_t bits = 0;
  for (size_t i = 1; i < count; i += stride) bits += static_cast<uint64_t>(std::bit_width(value_at(i)));
  return bits;
}

bool AllEqual(std::span<const uint64_t> values) {
  return values.size() < 2 ||
         std::memcmp(values.data(), values.data() + 1, (values.size() - 1) * sizeof(uint64_t)) == 0;
}

void WritePlane(std::span<const uint64_t> values, unsigned plane, std::span<std::byte> bytes) {
  const unsigned shift = plane * 8;
  for (size_t i = 0; i < values.size(); ++i) bytes[i] = static_cast<std::byte>(values[i] >> shift);
}

template <unsigned kWidth>
void ReadPlanes(const ColumnCursor::Planes& planes, size_t position, std::span<uint64_t> values) {
  std::array<const std::byte*, kWidth> from;
  for (unsigned plane = 0; plane < kWidth; ++plane) from[plane] = planes[plane] + position;
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t value = 0;
    for (unsigned plane = 0; plane < kWidth; ++plane) {
      value |= static_cast<uint64_t>(from[plane][i]) << (plane * 8);
    }
    values[i] = value;
  }
}

void ReadPlanes(unsigned width, const ColumnCursor::Planes& planes, size_t position,
                std::span<uint64_t> values) {
  switch (width) {
    case 1:
      return ReadPlanes<1>(planes, position, values);
    case 2:
      return ReadPlanes<2>(planes, position, values);
    case 3:
      return ReadPlanes<3>(planes, position, values);
    case 4:
      return ReadPlanes<4>(planes, position, values);
    case 5:
      return ReadPlanes<5>(planes, position, values);
    case 6:
      return ReadPlanes<6>(planes, position, values);
    case 7:
      return ReadPlanes<7>(planes, position, values);
    case 8:
      return ReadPlanes<8>(planes, position, values);
    default:
      std::ranges::fill(values, 0);
  }
}

void PutPlanes(std::span<const uint64_t> values, unsigned width, Compressor& compressor, ByteBuffer& scratch,
               ByteBuffer& out) {
  out.Put(static_cast<uint8_t>(width));
  const size_t mask_position = out.size();
  out.Put(uint8_t{0});
  uint8_t compressed = 0;
  scratch.Clear();
  const std::span<std::byte> bytes = scratch.Extend(values.size());
  for (unsigned plane = 0; plane < width; ++plane) {
    WritePlane(values, plane, bytes);
    // The frame's length stands before it and is known after it.
    const size_t length_position = out.size();
    out.Put(uint32_t{0});
    if (compressor.Compress(bytes, out)) {
      out.PutAt(length_position, static_cast<uint32_t>(out.size() - length_position - sizeof(uint32_t)));
      compressed = static_cast<uint8_t>(compressed | 1U << plane);
    } else {
      out.Shrink(length_position);
      out.PutBytes(bytes);
    }
  }
  out.PutAt(mask_position, compressed);
}

}  // namespace

void EncodeColumn(std::span<uint64_t> values, Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) {
  if (AllEqual(values)) {
    out.Put(Transform::kConstant);
    out.PutVarint(values.empty() ? 0 : values[0]);
    return;
  }
  Range plain;
  Range steps;
  plain.Add(values[0]);
  for (size_t i = 1; i < values.size(); ++i) {
    plain.Add(values[i]);
    steps.Add(Step(values[i], values[i - 1]));
  }
  const bool delta =
      steps.width() == 0 || SampledBits(values.size(), [&](size_t i) {
                              return Step(values[i], values[i - 1]) - steps.min;
                            }) < SampledBits(values.size(), [&](size_t i) { return values[i] - plain.min; });
  if (!delta) {
    for (uint64_t& value : values) value -= plain.min;
    out.Put(Transform::kPlain);
    out.PutVarint(plain.min);
    PutPlanes(values, plain.width(), compressor, scratch, out);
    return;
  }
  out.Put(Transform::kDelta);
  // The first value gets the smallest step, so that a column of equal steps needs no bytes at all.
  out.PutVarint(values[0] - static_cast<uint64_t>(UnZigZag(steps.min)));
  for (size_t i = values.size() - 1; i > 0; --i) values[i] = Step(values[i], values[i - 1]) - steps.min;
  values[0] = 0;
  out.PutVarint(steps.min);
  PutPlanes(values, steps.width(), compressor, scratch, out);
}

std::span<std::byte> ColumnCursor::Storage(size_t plane, size_t size) {
  if (storage_.size() <= plane) storage_.resize(plane + 1);
  Plane& storage = storage_[plane];
  if (size > storage.size) {
    storage.bytes = std::make_unique_for_overwrite<std::byte[]>(size);
    storage.size = size;
  }
  return {storage.bytes.get(), size};
}

bool ColumnCursor::Open(ByteReader& in, size_t count, Decompressor& decompressor) {
  transform_ = in.Load<Transform>();
  base_ = in.LoadVarint();
  count_ = count;
  position_ = 0;
  width_ = 0;
  min_step_ = 0;
  previous_ = base_;
  if (transform_ == Transform::kConstant) return in.ok();
  if (transform_ != Transform::kPlain && transform_ != Transform::kDelta) return false;
  if (transform_ == Transform::kDelta) min_step_ = in.LoadVarint();
  const auto width = in.Load<uint8_t>();
  const auto compressed = in.Load<uint8_t>();
  if (!in.ok() || width > planes_.size()) return false;
  width_ = width;
  for (unsigned plane = 0; plane < width; ++plane) {
    if ((compressed >> plane & 1) == 0) {
      planes_[plane] = in.Take(count).data();
      continue;
    }
    const std::span<const std::byte> frame = in.Take(in.Load<uint32_t>());
    const std::span<std::byte> bytes = Storage(plane, count);
    planes_[plane] = bytes.data();
    if (!in.ok() || !decompressor.Decompress(frame, bytes)) return false;
  }
  return in.ok();
}

void ColumnCursor::Next(std::span<uint64_t> values) {
  if (constant()) {
    std::ranges::fill(values, base_);
    return;
  }
  const std::span<uint64_t> stored = values.first(std::min(values.size(), count_ - position_));
  std::ranges::fill(values.subspan(stored.size()), 0);
  ReadPlanes(width_, planes_, position_, stored);
  position_ += stored.size();
  if (transform_ == Transform::kPlain) {
    for (uint64_t& value : stored) value += base_;
    return;
  }
  uint64_t previous = previous_;
  for (uint64_t& value : stored) {
    previous += static_cast<uint64_t>(UnZigZag(value + min_step_));
    value = previous;
  }
  previous_ = previous;
}

}  // namespace smeltr::session
