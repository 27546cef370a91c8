// The fields of a kind as data, made from kinds.def: lets one decoder serve every kind.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "event/event.h"
#include "session/format.h"

namespace smeltr::session {

enum class FieldForm : uint8_t { kByte, kBool, kWord32, kWord64, kDouble, kText, kList };

struct Field;

// A struct of kinds.def, or the element of a list (then a scalar or a text is its one field).
struct Schema {
  size_t row_bytes = 0;
  std::vector<Field> fields;
  bool has_texts = false;  // In its fields or in the elements of its lists.
};

struct Field {
  FieldForm form = FieldForm::kByte;
  size_t offset = 0;  // In the struct.
  // Lists only.
  const Schema* element = nullptr;
  void (*set_list)(std::byte* field, const std::byte* first_element, size_t count) = nullptr;

  ColumnType column_type() const;
};

// nullptr for kinds this build does not know.
const Schema* FindSchema(event::Kind kind);
// event::Opaque: only its bytes.
const Schema& OpaqueSchema();

}  // namespace smeltr::session
