#include "session/column.h"

#include <algorithm>
#include <bit>
#include <numeric>

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

uint64_t BitsOver(std::span<const uint64_t> sample, uint64_t min, uint64_t factor) {
  uint64_t bits = 0;
  for (const uint64_t value : sample) bits += static_cast<uint64_t>(std::bit_width((value - min) / factor));
  return bits;
}

// The first value has no step: it is never in a sample.
template <typename ValueAt>
std::vector<uint64_t> SampleOf(size_t count, ValueAt value_at) {
  std::vector<uint64_t> sample;
  sample.reserve(kSampledValues * 2);
  for (size_t i = 1; i < count; i += SampleStride(count)) sample.push_back(value_at(i));
  return sample;
}

uint64_t SampledPlainBits(std::span<const uint64_t> values) {
  return PlainBits(SampleOf(values.size(), [&](size_t i) { return values[i]; }));
}

uint64_t SampledStepBits(std::span<const uint64_t> values) {
  const std::vector<uint64_t> sample =
      SampleOf(values.size(), [&](size_t i) { return Step(values[i], values[i - 1]); });
  return sample.empty() ? 0 : BitsOver(sample, std::ranges::min(sample), 1);
}

template <typename ValueAt>
Range RangeOf(size_t count, ValueAt value_at) {
  Range range;
  for (size_t i = 0; i < count; ++i) range.Add(value_at(i));
  return range;
}

// What all values can be divided by: clocks tick in more than a nanosecond.
uint64_t CommonFactor(std::span<const uint64_t> values) {
  constexpr size_t kSamples = 64;
  uint64_t sampled = 0;
  for (size_t i = 0; i < values.size() && sampled != 1; i += values.size() / kSamples | 1) {
    sampled = std::gcd(sampled, values[i]);
  }
  if (sampled == 1) return 1;
  if (!std::has_single_bit(sampled) && sampled != 0 &&
      std::ranges::all_of(values, [&](uint64_t value) { return value % sampled == 0; })) {
    return sampled;
  }
  uint64_t any_bit = 0;
  for (const uint64_t value : values) any_bit |= value;
  return any_bit == 0 ? 1 : uint64_t{1} << std::countr_zero(any_bit);
}

void Divide(std::span<uint64_t> values, uint64_t factor) {
  if (factor == 1) return;
  if (std::has_single_bit(factor)) {
    const int shift = std::countr_zero(factor);
    for (uint64_t& value : values) value >>= shift;
    return;
  }
  for (uint64_t& value : values) value /= factor;
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

// `values` are what is left of a column, the smallest is 0 and the largest `max`.
void PutScaled(std::span<uint64_t> values, uint64_t max, Compressor& compressor, ByteBuffer& scratch,
               ByteBuffer& out) {
  const uint64_t factor = CommonFactor(values);
  Divide(values, factor);
  out.PutVarint(factor);
  PutPlanes(values, BytesFor(max / factor), compressor, scratch, out);
}

// Distances of 64 bits as signed ones, in an order that unsigned ones have: a begin lies before its end.
constexpr uint64_t kSignedFrom = uint64_t{1} << 63;

}  // namespace

uint64_t PlainBits(std::span<const uint64_t> sample) {
  if (sample.empty()) return 0;
  const uint64_t min = std::ranges::min(sample);
  uint64_t factor = 0;
  for (size_t i = 0; i < sample.size() && factor != 1; ++i) factor = std::gcd(factor, sample[i] - min);
  return factor == 0 ? 0 : BitsOver(sample, min, factor);
}

uint64_t CheapestSampledBits(std::span<const uint64_t> values) {
  return std::min(SampledPlainBits(values), SampledStepBits(values));
}

void EncodeColumn(std::span<uint64_t> values, const NearColumn* near, Compressor& compressor,
                  ByteBuffer& scratch, ByteBuffer& out) {
  if (AllEqual(values)) {
    out.Put(Transform::kConstant);
    out.PutVarint(values.empty() ? 0 : values[0]);
    return;
  }
  const size_t count = values.size();
  const auto step = [&](size_t i) { return Step(values[i], values[i - 1]); };
  const auto distance = [&](size_t i) { return values[i] - near->values[i] - kSignedFrom; };
  const uint64_t plain_bits = SampledPlainBits(values);
  const uint64_t step_bits = SampledStepBits(values);
  const uint64_t distance_bits = near == nullptr ? UINT64_MAX : PlainBits(SampleOf(count, distance));
  if (step_bits < std::min(plain_bits, distance_bits)) {
    const Range steps = RangeOf(count - 1, [&](size_t i) { return step(i + 1); });
    out.Put(Transform::kDelta);
    // The first value gets the smallest step, so that a column of equal steps needs no bytes at all.
    out.PutVarint(values[0] - static_cast<uint64_t>(UnZigZag(steps.min)));
    for (size_t i = count - 1; i > 0; --i) values[i] = step(i) - steps.min;
    values[0] = 0;
    out.PutVarint(steps.min);
    PutPlanes(values, steps.width(), compressor, scratch, out);
  } else if (distance_bits < plain_bits) {
    const Range distances = RangeOf(count, distance);
    const uint64_t base = distances.min + kSignedFrom;
    for (size_t i = 0; i < count; ++i) values[i] -= near->values[i] + base;
    out.Put(Transform::kNear);
    out.PutVarint(near->index);
    out.PutVarint(base);
    PutScaled(values, distances.max - distances.min, compressor, scratch, out);
  } else {
    const Range plain = RangeOf(count, [&](size_t i) { return values[i]; });
    for (uint64_t& value : values) value -= plain.min;
    out.Put(Transform::kPlain);
    out.PutVarint(plain.min);
    PutScaled(values, plain.max - plain.min, compressor, scratch, out);
  }
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

std::optional<uint64_t> ColumnCursor::NearColumnOf(std::span<const std::byte> column) {
  ByteReader in(column);
  if (in.Load<Transform>() != Transform::kNear) return std::nullopt;
  return in.LoadVarint();
}

std::optional<uint64_t> ColumnCursor::near_column() const {
  return transform_ == Transform::kNear ? std::optional(near_column_) : std::nullopt;
}

bool ColumnCursor::Open(ByteReader& in, size_t count, Decompressor& decompressor) {
  transform_ = in.Load<Transform>();
  if (transform_ > Transform::kNear) return false;
  near_column_ = transform_ == Transform::kNear ? in.LoadVarint() : 0;
  base_ = in.LoadVarint();
  min_step_ = transform_ == Transform::kDelta ? in.LoadVarint() : 0;
  const bool scaled = transform_ == Transform::kPlain || transform_ == Transform::kNear;
  factor_ = scaled ? in.LoadVarint() : 1;
  count_ = count;
  width_ = 0;
  Rewind();
  return constant() ? in.ok() : OpenPlanes(in, decompressor);
}

bool ColumnCursor::OpenPlanes(ByteReader& in, Decompressor& decompressor) {
  const auto width = in.Load<uint8_t>();
  const auto compressed = in.Load<uint8_t>();
  if (!in.ok() || width > planes_.size()) return false;
  width_ = width;
  for (unsigned plane = 0; plane < width; ++plane) {
    if ((compressed >> plane & 1) == 0) {
      planes_[plane] = in.Take(count_).data();
      continue;
    }
    const std::span<const std::byte> frame = in.Take(in.Load<uint32_t>());
    const std::span<std::byte> bytes = Storage(plane, count_);
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
  if (transform_ == Transform::kDelta) {
    NextDelta(stored);
  } else {
    ReadPlanes(width_, planes_, position_, stored);
    if (factor_ == 1) {
      for (uint64_t& value : stored) value += base_;
    } else {
      for (uint64_t& value : stored) value = value * factor_ + base_;
    }
  }
  position_ += stored.size();
}

void ColumnCursor::NextDelta(std::span<uint64_t> values) {
  const auto smallest_step = static_cast<uint64_t>(UnZigZag(min_step_));
  uint64_t previous = previous_;
  if (width_ == 0) {
    for (uint64_t& value : values) value = previous += smallest_step;
  } else if (width_ == 1) {
    // Often nothing changes for long, as with the scopes of ops: eight rows at a time then.
    const std::byte* const steps = planes_[0] + position_;
    constexpr size_t kAtOnce = sizeof(uint64_t);
    for (size_t i = 0; i < values.size();) {
      uint64_t several = 1;
      if (i + kAtOnce <= values.size()) std::memcpy(&several, steps + i, kAtOnce);
      if (several == 0) {
        for (size_t j = 0; j < kAtOnce; ++j) values[i + j] = previous += smallest_step;
        i += kAtOnce;
      } else {
        const size_t end = std::min(i + kAtOnce, values.size());
        for (; i < end; ++i) {
          previous += static_cast<uint64_t>(UnZigZag(static_cast<uint64_t>(steps[i]) + min_step_));
          values[i] = previous;
        }
      }
    }
  } else {
    ReadPlanes(width_, planes_, position_, values);
    for (uint64_t& value : values) value = previous += static_cast<uint64_t>(UnZigZag(value + min_step_));
  }
  previous_ = previous;
}

}  // namespace smeltr::session
