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

void WritePlanes(std::span<const uint64_t> values, unsigned width, std::byte* out) {
  for (unsigned plane = 0; plane < width; ++plane) {
    const unsigned shift = plane * 8;
    for (size_t i = 0; i < values.size(); ++i) out[i] = static_cast<std::byte>(values[i] >> shift);
    out += values.size();
  }
}

template <unsigned kWidth>
void ReadPlanes(const std::byte* planes, size_t stride, std::span<uint64_t> values) {
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t value = 0;
    for (unsigned plane = 0; plane < kWidth; ++plane) {
      value |= static_cast<uint64_t>(planes[plane * stride + i]) << (plane * 8);
    }
    values[i] = value;
  }
}

void ReadPlanes(unsigned width, const std::byte* planes, size_t stride, std::span<uint64_t> values) {
  switch (width) {
    case 1:
      return ReadPlanes<1>(planes, stride, values);
    case 2:
      return ReadPlanes<2>(planes, stride, values);
    case 3:
      return ReadPlanes<3>(planes, stride, values);
    case 4:
      return ReadPlanes<4>(planes, stride, values);
    case 5:
      return ReadPlanes<5>(planes, stride, values);
    case 6:
      return ReadPlanes<6>(planes, stride, values);
    case 7:
      return ReadPlanes<7>(planes, stride, values);
    case 8:
      return ReadPlanes<8>(planes, stride, values);
    default:
      return;  // Open() let no other width in.
  }
}

void PutPlanes(std::span<const uint64_t> values, unsigned width, size_t form_position, Compressor& compressor,
               ByteBuffer& scratch, ByteBuffer& out) {
  scratch.Clear();
  const std::span<std::byte> planes = scratch.Extend(values.size() * width);
  WritePlanes(values, width, planes.data());
  // The frame's length stands before it and is known after it.
  const size_t length_position = out.size();
  out.Put(uint32_t{0});
  if (compressor.Compress(planes, out)) {
    const size_t length = out.size() - length_position - sizeof(uint32_t);
    out.PutAt(length_position, static_cast<uint32_t>(length));
    out.data()[form_position] |= std::byte{kFormCompressed};
  } else {
    out.Shrink(length_position);
    out.PutBytes(planes);
  }
}

}  // namespace

void EncodeColumn(std::span<uint64_t> values, Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) {
  const size_t form_position = out.size();
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
  bool delta = steps.width() < plain.width();
  if (steps.width() == plain.width() || (steps.width() != 0 && !delta)) {
    delta = SampledBits(values.size(), [&](size_t i) { return Step(values[i], values[i - 1]) - steps.min; }) <
            SampledBits(values.size(), [&](size_t i) { return values[i] - plain.min; });
  }
  if (!delta) {
    for (uint64_t& value : values) value -= plain.min;
    out.Put(Transform::kPlain);
    out.PutVarint(plain.min);
    out.Put(static_cast<uint8_t>(plain.width()));
    PutPlanes(values, plain.width(), form_position, compressor, scratch, out);
    return;
  }
  out.Put(Transform::kDelta);
  // The first value gets the smallest step, so that a column of equal steps needs no bytes at all.
  out.PutVarint(values[0] - static_cast<uint64_t>(UnZigZag(steps.min)));
  for (size_t i = values.size() - 1; i > 0; --i) values[i] = Step(values[i], values[i - 1]) - steps.min;
  values[0] = 0;
  out.PutVarint(steps.min);
  out.Put(static_cast<uint8_t>(steps.width()));
  PutPlanes(values, steps.width(), form_position, compressor, scratch, out);
}

std::span<std::byte> ColumnCursor::Storage(size_t size) {
  if (size > storage_bytes_) {
    storage_ = std::make_unique_for_overwrite<std::byte[]>(size);
    storage_bytes_ = size;
  }
  return {storage_.get(), size};
}

bool ColumnCursor::Open(ByteReader& in, size_t count, Decompressor& decompressor) {
  const auto form = in.Load<uint8_t>();
  transform_ = static_cast<Transform>(form & kTransformMask);
  base_ = in.LoadVarint();
  count_ = count;
  position_ = 0;
  width_ = 0;
  min_step_ = 0;
  previous_ = base_;
  planes_ = nullptr;
  if (transform_ == Transform::kConstant) return in.ok();
  if (transform_ != Transform::kPlain && transform_ != Transform::kDelta) return false;
  if (transform_ == Transform::kDelta) min_step_ = in.LoadVarint();
  width_ = in.Load<uint8_t>();
  if (!in.ok() || width_ > 8 || count == 0) return false;
  const size_t raw_bytes = count_ * width_;
  if ((form & kFormCompressed) == 0) {
    planes_ = in.Take(raw_bytes).data();
    return in.ok();
  }
  const std::span<const std::byte> frame = in.Take(in.Load<uint32_t>());
  const std::span<std::byte> raw = Storage(raw_bytes);
  planes_ = raw.data();
  return in.ok() && decompressor.Decompress(frame, raw);
}

void ColumnCursor::Next(std::span<uint64_t> values) {
  if (constant()) {
    std::ranges::fill(values, base_);
    return;
  }
  const std::span<uint64_t> stored = values.first(std::min(values.size(), count_ - position_));
  std::ranges::fill(values.subspan(stored.size()), 0);
  if (width_ == 0) {
    std::ranges::fill(stored, 0);
  } else {
    ReadPlanes(width_, planes_ + position_, count_, stored);
  }
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
