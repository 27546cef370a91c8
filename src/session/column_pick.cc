#include "session/column_pick.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace smeltr::session {
namespace {

constexpr std::array<std::string_view, kEnvelopeColumns> kEnvelopeNames = {"seq", "ts_ns", "pid", "tid"};

uint64_t Bit(size_t index) { return index < 64 ? uint64_t{1} << index : 0; }

bool IsNamed(std::string_view name, std::span<const std::string> names) {
  return std::ranges::find(names, name) != names.end();
}

// Of the names that begin with "<list>.".
uint64_t PickElements(const Field& list, std::span<const std::string> names) {
  const std::vector<Field>& fields = list.element->fields;
  uint64_t bits = 0;
  for (size_t i = 0; i < fields.size(); ++i) {
    std::string name(list.name);
    name.append(".").append(fields[i].name);
    if (IsNamed(name, names)) bits |= Bit(i);
  }
  return bits;
}

}  // namespace

ColumnPick PickColumns(const Schema& schema, std::span<const std::string> names) {
  if (names.empty()) return {};
  ColumnPick pick{.columns = 0, .elements = std::vector<uint64_t>(kEnvelopeColumns + schema.fields.size())};
  for (size_t i = 0; i < kEnvelopeColumns; ++i) {
    if (IsNamed(kEnvelopeNames[i], names)) pick.columns |= Bit(i);
  }
  for (size_t i = 0; i < schema.fields.size(); ++i) {
    const Field& field = schema.fields[i];
    const size_t column = kEnvelopeColumns + i;
    const bool whole = IsNamed(field.name, names);
    if (field.form == FieldForm::kList) {
      pick.elements[column] = whole ? ColumnPick::kAll : PickElements(field, names);
    }
    if (whole || pick.elements[column] != 0) pick.columns |= Bit(column);
  }
  return pick;
}

bool NeedsTexts(const Schema& schema, const ColumnPick& pick) {
  if (!schema.has_texts) return false;
  for (size_t i = 0; i < schema.fields.size(); ++i) {
    const Field& field = schema.fields[i];
    const size_t column = kEnvelopeColumns + i;
    if (!pick.Has(column)) continue;
    if (field.form == FieldForm::kText) return true;
    if (field.form != FieldForm::kList) continue;
    for (size_t j = 0; j < field.element->fields.size(); ++j) {
      const bool picked = ColumnPick::HasBit(pick.ElementsOf(column), j);
      if (picked && field.element->fields[j].form == FieldForm::kText) return true;
    }
  }
  return false;
}

}  // namespace smeltr::session
