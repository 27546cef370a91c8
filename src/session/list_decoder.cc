#include "session/list_decoder.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "session/column_pick.h"
#include "session/scatter.h"

namespace smeltr::session {
namespace {

// As many numbers as stay in the first-level cache together with the rows they go to.
constexpr size_t kPiece = 128;
// At most so many lists come in one batch.
constexpr size_t kMaxLists = 256;

template <size_t kBytes>
void CopyRows(std::span<const uint64_t> numbers, const std::byte* from, std::byte* to) {
  for (const uint64_t number : numbers) {
    std::memcpy(to, from + number * kBytes, kBytes);
    to += kBytes;
  }
}

// Row numbers[i] of `from` becomes row i of `to`. The sizes are those of the elements that there are.
void CopyRows(size_t row_bytes, std::span<const uint64_t> numbers, const std::byte* from, std::byte* to) {
  switch (row_bytes) {
    case sizeof(event::OpSample):
      return CopyRows<sizeof(event::OpSample)>(numbers, from, to);
    case sizeof(event::Attribute):
      return CopyRows<sizeof(event::Attribute)>(numbers, from, to);
    case sizeof(event::StackFrame):
      return CopyRows<sizeof(event::StackFrame)>(numbers, from, to);
    default:
      for (const uint64_t number : numbers) {
        std::memcpy(to, from + number * row_bytes, row_bytes);
        to += row_bytes;
      }
  }
}

}  // namespace

bool ListDecoder::Open(std::span<const std::byte> bytes, const Field& field, size_t list_count,
                       uint64_t picked, const StoredTexts& texts, Decompressor& decompressor) {
  field_ = &field;
  element_ = field.element;
  texts_ = &texts;
  own_count_ = 0;
  opened_count_ = 1;
  ByteReader in(bytes);
  const uint64_t element_count = in.LoadVarint();
  if (!in.ok() || element_count > kMaxBlockElements) return false;
  element_count_ = elements_left_ = element_count;
  if (!lengths_.Open(in, list_count, decompressor) || lengths_.near_column()) return false;
  if (!EnterShapes(in)) return false;
  const uint64_t column_count = in.LoadVarint();
  for (uint64_t i = 0; i < column_count && in.ok(); ++i) {
    const auto type = in.Load<ColumnType>();
    ByteReader column(in.Take(in.Load<uint32_t>()));
    if (i >= element_->fields.size()) continue;
    const Field& of_element = element_->fields[i];
    if (!in.ok() || type != of_element.column_type()) return false;
    if (!ColumnPick::HasBit(picked, i)) continue;
    if (!OpenColumn(column, of_element, decompressor)) return false;
  }
  return in.ok();
}

bool ListDecoder::EnterShapes(ByteReader& in) {
  const uint64_t shape_count = in.LoadVarint();
  if (!in.ok() || shape_count > element_count_) return false;
  shape_count_ = shape_count;
  shapes_wanted_ = false;
  shapes_.assign(std::max<size_t>(shape_count_, 1) * element_->row_bytes, std::byte{0});
  if (shape_count == 0) return true;
  if (in.Load<ColumnType>() != ColumnType::kInteger) return false;
  shape_bytes_ = in.Take(in.Load<uint32_t>());
  return in.ok();
}

bool ListDecoder::OpenShapeNumbers(Decompressor& decompressor) {
  if (shapes_wanted_) return true;
  shapes_wanted_ = true;
  ++opened_count_;
  ByteReader in(shape_bytes_);
  return shape_of_.Open(in, element_count_, decompressor) && !shape_of_.near_column();
}

bool ListDecoder::OpenColumn(ByteReader& in, const Field& field, Decompressor& decompressor) {
  const auto placement = in.Load<Placement>();
  if (placement > Placement::kBoth) return false;
  // Without elements there are no shapes either.
  if (placement != Placement::kElement && shape_count_ == 0) return element_count_ == 0;
  if (placement != Placement::kElement && !OpenShapeNumbers(decompressor)) return false;
  ++opened_count_;
  if (placement == Placement::kShape) {
    if (!scratch_.Open(in, shape_count_, decompressor) || scratch_.near_column()) return false;
    FillShapes(field, scratch_);
    return true;
  }
  if (own_.size() == own_count_) own_.emplace_back();
  OwnColumn& own = own_[own_count_];
  own.field = &field;
  own.of_shape.clear();
  if (placement == Placement::kBoth) {
    if (!scratch_.Open(in, shape_count_, decompressor) || scratch_.near_column()) return false;
    own.of_shape.resize(shape_count_);
    scratch_.Next(own.of_shape);
  }
  if (!own.cursor.Open(in, element_count_, decompressor) || own.cursor.near_column()) return false;
  if (own.cursor.constant() && own.of_shape.empty()) {
    FillShapes(field, own.cursor);
  } else {
    ++own_count_;
  }
  return true;
}

void ListDecoder::FillShapes(const Field& field, ColumnCursor& cursor) {
  std::array<uint64_t, kPiece> numbers;
  const size_t row_count = shapes_.size() / element_->row_bytes;
  for (size_t done = 0; done < row_count; done += kPiece) {
    const std::span<uint64_t> piece = std::span(numbers).first(std::min(kPiece, row_count - done));
    cursor.Next(piece);
    std::byte* const rows = shapes_.data() + done * element_->row_bytes;
    ScatterField(field.form, piece, rows + field.offset, element_->row_bytes, *texts_);
  }
}

bool ListDecoder::Decode(size_t count, std::byte* lists, size_t stride) {
  std::array<uint64_t, kMaxLists> lengths;
  size_t total = 0;
  const std::span<uint64_t> batch = std::span(lengths).first(count);
  lengths_.Next(batch);
  for (const uint64_t length : batch) {
    if (length > elements_left_ - total) return false;
    total += length;
  }
  elements_left_ -= total;
  const size_t element_bytes = element_->row_bytes;
  if (total * element_bytes > rows_bytes_) {
    rows_bytes_ = total * element_bytes;
    rows_ = std::make_unique_for_overwrite<std::byte[]>(rows_bytes_);
  }
  std::byte* element = rows_.get();
  for (size_t done = 0; done < total; done += kPiece) {
    if (!DecodeElements(std::min(kPiece, total - done), element + done * element_bytes)) return false;
  }
  for (const uint64_t length : batch) {
    field_->set_list(lists, element, length);
    if (length != 0) element += length * element_bytes;
    lists += stride;
  }
  return true;
}

bool ListDecoder::DecodeElements(size_t count, std::byte* elements) {
  std::array<uint64_t, kPiece> shape_numbers;
  std::array<uint64_t, kPiece> numbers;
  const std::span<uint64_t> shape_of = std::span(shape_numbers).first(count);
  const std::span<uint64_t> values = std::span(numbers).first(count);
  if (!shapes_wanted_) {
    std::ranges::fill(shape_of, 0);
  } else {
    shape_of_.Next(shape_of);
    if (std::ranges::max(shape_of) >= shape_count_) return false;
  }
  CopyRows(element_->row_bytes, shape_of, shapes_.data(), elements);
  for (OwnColumn& own : std::span(own_).first(own_count_)) {
    own.cursor.Next(values);
    if (!own.of_shape.empty()) {
      for (size_t i = 0; i < count; ++i) values[i] += own.of_shape[shape_of[i]];
    }
    ScatterField(own.field->form, values, elements + own.field->offset, element_->row_bytes, *texts_);
  }
  return true;
}

}  // namespace smeltr::session
