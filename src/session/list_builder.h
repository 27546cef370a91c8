// The elements of one list field of a block on their way into a chunk.
#pragma once

#include <algorithm>

#include "event/event.h"
#include "session/row_table.h"
#include "session/schema.h"
#include "session/shape_table.h"
#include "session/text_table.h"

namespace smeltr::session {

class ListBuilder {
 public:
  explicit ListBuilder(const Schema& element);

  // T: what the schema is of. Returns how many of the elements were taken: up to kMaxListElements.
  template <typename T>
  uint64_t Append(const event::List<T>& elements, TextTable& texts);

  size_t element_count() const { return rows_.row_count(); }
  // Numbers gathered.
  size_t value_count() const {
    return rows_.row_count() * rows_.column_count() + shapes_.count() * shapes_.column_count();
  }
  size_t capacity_bytes() const { return rows_.capacity_bytes() + shapes_.capacity_bytes(); }

  // Appends the bytes of the list column. `lengths`, those of the lists, and what was gathered are scratch
  // afterwards: Clear().
  void Encode(std::span<uint64_t> lengths, Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out);
  void Clear();
  void Release();

 private:
  struct ElementStager;

  // Column 0: the shape, where there are shapes. Then the fields that are in no shape.
  size_t first_own_column() const { return has_shapes_ ? 1 : 0; }
  void PutOwnColumn(std::span<uint64_t> values, std::span<const uint64_t> shape_of, Compressor& compressor,
                    ByteBuffer& scratch, ByteBuffer& out) const;

  const Schema& element_;
  bool has_shapes_;
  RowTable rows_;
  ShapeTable shapes_;
};

struct ListBuilder::ElementStager {
  RowTable& rows;
  TextTable& texts;
  size_t column = 0;

  template <typename T>
  void operator()(std::string_view, bool, const T& field) {
    if constexpr (!kInShape<T>) rows.Set(column++, NumberOf(field));
  }
};

template <typename T>
uint64_t ListBuilder::Append(const event::List<T>& elements, TextTable& texts) {
  const size_t count = std::min<size_t>(elements.size(), kMaxListElements);
  for (const T& element : elements.first(count)) {
    rows_.PrepareRow();
    if constexpr (Scalar<T>) {
      rows_.Set(0, NumberOf(element));
    } else if constexpr (std::same_as<T, event::Text>) {
      rows_.Set(0, texts.Intern(element.view));
    } else {
      if (has_shapes_) rows_.Set(0, shapes_.Find(element, texts));
      VisitFields(element, ElementStager{rows_, texts, first_own_column()});
    }
    rows_.CommitRow();
  }
  return count;
}

}  // namespace smeltr::session
