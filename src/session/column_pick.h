// Which columns of a block are read; the others are neither decompressed nor filled in.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "session/schema.h"

namespace smeltr::session {

struct ColumnPick {
  static constexpr uint64_t kAll = UINT64_MAX;

  uint64_t columns = kAll;         // Bit i: column i of the block, the four of the envelope included.
  std::vector<uint64_t> elements;  // By column; of a list: its elements' fields. Empty: all of all lists.

  bool Has(size_t column) const { return HasBit(columns, column); }
  uint64_t ElementsOf(size_t column) const { return elements.empty() ? kAll : elements[column]; }
  // More than 64 columns: the ones beyond are always read.
  static bool HasBit(uint64_t bits, size_t index) { return index >= 64 || (bits >> index & 1) != 0; }
};

// The columns named: those of the envelope ("seq", "ts_ns", "pid", "tid"), fields as in kinds.def, fields of
// list elements as "ops.gpu_ns". All columns when no name is given.
ColumnPick PickColumns(const Schema& schema, std::span<const std::string> names);

// Whether any of the picked columns holds texts.
bool NeedsTexts(const Schema& schema, const ColumnPick& pick);

}  // namespace smeltr::session
