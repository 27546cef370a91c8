#include "session/schema.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "base/bytes.h"

namespace smeltr::session {
namespace {

template <typename T>
struct ListElement;
template <typename T>
struct ListElement<event::List<T>> {
  using Type = T;
};
template <typename T>
concept ListField = requires { typename ListElement<T>::Type; };

template <typename T>
const Schema& SchemaOf();

template <typename T>
Field MakeField(size_t offset) {
  Field field{.offset = offset};
  if constexpr (ListField<T>) {
    using Element = typename ListElement<T>::Type;
    static_assert(std::is_trivially_copyable_v<Element>);
    field.form = FieldForm::kList;
    field.element = &SchemaOf<Element>();
    field.set_list = [](std::byte* at, const std::byte* first, size_t count) {
      const event::List<Element> list(reinterpret_cast<const Element*>(first), count);
      std::memcpy(at, &list, sizeof(list));
    };
  } else if constexpr (std::same_as<T, event::Text>) {
    field.form = FieldForm::kText;
  } else if constexpr (std::same_as<T, double>) {
    field.form = FieldForm::kDouble;
  } else if constexpr (std::same_as<T, bool>) {
    field.form = FieldForm::kBool;
  } else if constexpr (sizeof(T) == 1) {
    field.form = FieldForm::kByte;
  } else {
    static_assert(sizeof(T) == 4 || sizeof(T) == 8, "add the width to FieldForm and to the decoder");
    field.form = sizeof(T) == 4 ? FieldForm::kWord32 : FieldForm::kWord64;
  }
  return field;
}

// A begin lies near the event's own time, an end near the begin before it. Only a hint for the writer.
size_t NearColumnOf(const Schema& schema, const Field& field) {
  if (field.form != FieldForm::kWord64) return kNoColumn;
  if (field.name.ends_with("start_ns") || field.name.ends_with("begin_ns")) return kTimeColumn;
  const bool after_begin = !schema.fields.empty() && schema.fields.back().near_column == kTimeColumn;
  return after_begin && field.name.ends_with("end_ns") ? kEnvelopeColumns + schema.fields.size() - 1
                                                       : kNoColumn;
}

template <typename T>
Schema MakeSchema() {
  Schema schema{.row_bytes = sizeof(T), .fields = {}};
  const auto add = [&](const Field& field) {
    schema.has_texts |=
        field.form == FieldForm::kText || (field.element != nullptr && field.element->has_texts);
    schema.fields.push_back(field);
  };
  if constexpr (Scalar<T> || std::same_as<T, event::Text>) {
    add(MakeField<T>(0));
  } else {
    static_assert(std::is_trivially_copyable_v<T>);
    const T probe{};
    VisitFields(probe, [&]<typename F>(std::string_view name, bool, const F& field) {
      const auto offset =
          reinterpret_cast<const std::byte*>(&field) - reinterpret_cast<const std::byte*>(&probe);
      Field made = MakeField<F>(static_cast<size_t>(offset));
      made.name = name;
      made.near_column = NearColumnOf(schema, made);
      add(made);
    });
  }
  return schema;
}

template <typename T>
const Schema& SchemaOf() {
  static const Schema schema = MakeSchema<T>();
  return schema;
}

using SchemaTable = std::array<const Schema*, event::kKindLimit>;

SchemaTable MakeTable() {
  SchemaTable table{};
#define KIND(number, name, source, naming) table[number] = &SchemaOf<event::name>();
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
  return table;
}

}  // namespace

ColumnType Field::column_type() const {
  switch (form) {
    case FieldForm::kDouble:
      return ColumnType::kDouble;
    case FieldForm::kText:
      return ColumnType::kText;
    case FieldForm::kList:
      return ColumnType::kList;
    case FieldForm::kByte:
    case FieldForm::kBool:
    case FieldForm::kWord32:
    case FieldForm::kWord64:
      break;
  }
  return ColumnType::kInteger;
}

bool Schema::has_shapes() const {
  return std::ranges::any_of(fields, [](const Field& field) { return field.in_shape(); });
}

const Schema* FindSchema(event::Kind kind) {
  static const SchemaTable table = MakeTable();
  const auto number = static_cast<size_t>(kind);
  return number < table.size() ? table[number] : nullptr;
}

const Schema& OpaqueSchema() {
  static const Schema schema = [] {
    const event::Opaque probe{};
    const auto offset =
        reinterpret_cast<const std::byte*>(&probe.bytes) - reinterpret_cast<const std::byte*>(&probe);
    Schema made{.row_bytes = sizeof(event::Opaque), .fields = {}};
    made.fields.push_back(MakeField<event::List<std::byte>>(static_cast<size_t>(offset)));
    return made;
  }();
  return schema;
}

}  // namespace smeltr::session
