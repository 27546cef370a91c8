#include "session/list_builder.h"

#include "session/column.h"

namespace smeltr::session {
namespace {

// Shapes that hardly come back say nothing about the next of their values.
constexpr size_t kWorthTrying = 8;

// The smallest value of each shape.
std::vector<uint64_t> SmallestOf(std::span<const uint64_t> values, std::span<const uint64_t> shape_of,
                                 size_t shape_count) {
  std::vector<uint64_t> smallest(shape_count, UINT64_MAX);
  for (size_t i = 0; i < values.size(); ++i) {
    uint64_t& of_shape = smallest[shape_of[i]];
    of_shape = std::min(of_shape, values[i]);
  }
  return smallest;
}

// As CheapestSampledBits(), of what the values are above the smallest of their shape.
uint64_t SampledBitsAbove(std::span<const uint64_t> values, std::span<const uint64_t> shape_of,
                          std::span<const uint64_t> smallest) {
  std::vector<uint64_t> sample;
  for (size_t i = 1; i < values.size(); i += SampleStride(values.size())) {
    sample.push_back(values[i] - smallest[shape_of[i]]);
  }
  return PlainBits(sample);
}

}  // namespace

ListBuilder::ListBuilder(const Schema& element)
    : element_(element),
      has_shapes_(element.has_shapes()),
      rows_(static_cast<size_t>(
                std::ranges::count_if(element.fields, [](const Field& field) { return !field.in_shape(); })) +
            first_own_column()),
      shapes_(element) {}

void ListBuilder::PutOwnColumn(std::span<uint64_t> values, std::span<const uint64_t> shape_of,
                               Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) const {
  const uint64_t without_bits = CheapestSampledBits(values);
  const bool cheap_anyway = without_bits < kSampledValues;
  if (!cheap_anyway && !shape_of.empty() && values.size() >= shapes_.count() * kWorthTrying) {
    std::vector<uint64_t> smallest = SmallestOf(values, shape_of, shapes_.count());
    if (SampledBitsAbove(values, shape_of, smallest) < without_bits) {
      for (size_t i = 0; i < values.size(); ++i) values[i] -= smallest[shape_of[i]];
      out.Put(Placement::kBoth);
      EncodeColumn(smallest, compressor, scratch, out);
      EncodeColumn(values, compressor, scratch, out);
      return;
    }
  }
  out.Put(Placement::kElement);
  EncodeColumn(values, compressor, scratch, out);
}

void ListBuilder::Encode(std::span<uint64_t> lengths, Compressor& compressor, ByteBuffer& scratch,
                         ByteBuffer& out) {
  out.PutVarint(rows_.row_count());
  EncodeColumn(lengths, compressor, scratch, out);
  out.PutVarint(shapes_.count());
  std::vector<uint64_t> shape_of;
  if (shapes_.count() != 0) {
    shape_of.assign(rows_.column(0).begin(), rows_.column(0).end());
    PutColumn(ColumnType::kInteger, out, [&] { EncodeColumn(rows_.column(0), compressor, scratch, out); });
  }
  out.PutVarint(element_.fields.size());
  size_t shape_column = 0;
  size_t own_column = first_own_column();
  for (const Field& field : element_.fields) {
    PutColumn(field.column_type(), out, [&] {
      if (!field.in_shape()) {
        return PutOwnColumn(rows_.column(own_column++), shape_of, compressor, scratch, out);
      }
      out.Put(Placement::kShape);
      std::vector<uint64_t> values = shapes_.Column(shape_column++);
      EncodeColumn(values, compressor, scratch, out);
    });
  }
}

void ListBuilder::Clear() {
  rows_.Clear();
  shapes_.Clear();
}

void ListBuilder::Release() {
  rows_.Release();
  shapes_.Release();
}

}  // namespace smeltr::session
