#include "session/shape_table.h"

#include <xxhash.h>

#include <algorithm>

namespace smeltr::session {
namespace {

constexpr size_t kFirstSlots = 256;
constexpr size_t kKeptSlots = size_t{1} << 14;

}  // namespace

ShapeTable::ShapeTable(const Schema& element)
    : column_count_(static_cast<size_t>(std::ranges::count_if(element.fields, &Field::in_shape))),
      row_(column_count_) {}

uint64_t ShapeTable::HashOf(std::span<const uint64_t> row) const {
  return XXH3_64bits(row.data(), row.size_bytes());
}

uint32_t ShapeTable::FindNumbers() {
  if ((next_.size() + 1) * 2 > slots_.size()) Grow();
  const size_t mask = slots_.size() - 1;
  size_t slot = HashOf(row_) & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    if (std::ranges::equal(Row(slots_[slot] - 1), row_)) return slots_[slot] - 1;
  }
  numbers_.insert(numbers_.end(), row_.begin(), row_.end());
  next_.push_back(0);
  slots_[slot] = static_cast<uint32_t>(next_.size());
  return slots_[slot] - 1;
}

void ShapeTable::Grow() {
  slots_.assign(std::max(kFirstSlots, slots_.size() * 2), 0);
  const size_t mask = slots_.size() - 1;
  for (uint32_t shape = 0; shape < next_.size(); ++shape) {
    size_t slot = HashOf(Row(shape)) & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = shape + 1;
  }
}

std::vector<uint64_t> ShapeTable::Column(size_t index) const {
  std::vector<uint64_t> values(count());
  for (size_t shape = 0; shape < values.size(); ++shape)
    values[shape] = numbers_[shape * column_count_ + index];
  return values;
}

void ShapeTable::Clear() {
  numbers_.clear();
  next_.clear();
  last_ = 0;
  if (slots_.size() > kKeptSlots) Release();
  std::ranges::fill(slots_, 0);
}

void ShapeTable::Release() {
  numbers_ = {};
  next_ = {};
  slots_ = {};
  last_ = 0;
}

}  // namespace smeltr::session
