// The fields of a kind as data, made from kinds.def: lets one decoder serve every kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "event/event.h"
#include "session/format.h"

namespace smeltr::session {

// seq, ts_ns, pid, tid stand before the fields of the kind.
inline constexpr size_t kEnvelopeColumns = 4;
inline constexpr size_t kTimeColumn = 1;
inline constexpr size_t kNoColumn = SIZE_MAX;

enum class FieldForm : uint8_t { kByte, kBool, kWord32, kWord64, kDouble, kText, kList };

struct Field;

// A struct of kinds.def, or the element of a list (then a scalar or a text is its one field).
struct Schema {
  size_t row_bytes = 0;
  std::vector<Field> fields;
  bool has_texts = false;  // In its fields or in the elements of its lists.

  bool has_shapes() const;  // Any field is in_shape().
};

struct Field {
  FieldForm form = FieldForm::kByte;
  size_t offset = 0;           // In the struct.
  std::string_view name = {};  // As in kinds.def; empty for the one field of a scalar or text.
  // The block's column that usually has about the same values, if any: a begin for its end.
  size_t near_column = kNoColumn;
  // Lists only.
  const Schema* element = nullptr;
  void (*set_list)(std::byte* field, const std::byte* first_element, size_t count) = nullptr;

  ColumnType column_type() const;
  // Of list elements: equal ones share it, as a part of their shape. Numbers of 64 bits vary too much.
  bool in_shape() const { return !name.empty() && form != FieldForm::kWord64 && form != FieldForm::kDouble; }
};

// nullptr for kinds this build does not know.
const Schema* FindSchema(event::Kind kind);
// event::Opaque: only its bytes.
const Schema& OpaqueSchema();

}  // namespace smeltr::session
