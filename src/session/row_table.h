// Rows gathered for writing, one array of numbers a column. Grows by doubling.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <span>

namespace smeltr::session {

class RowTable {
 public:
  explicit RowTable(size_t column_count) : column_count_(column_count) {}

  size_t row_count() const { return row_count_; }
  size_t column_count() const { return column_count_; }
  size_t capacity_bytes() const { return capacity_ * column_count_ * sizeof(uint64_t); }

  // Room for one more row; fill it with Set(0..), then CommitRow().
  void PrepareRow() {
    if (row_count_ == capacity_) Grow();
  }
  void Set(size_t column, uint64_t value) { values_[column * capacity_ + row_count_] = value; }
  void CommitRow() { ++row_count_; }

  std::span<uint64_t> column(size_t index) { return {values_.get() + index * capacity_, row_count_}; }

  void Clear() { row_count_ = 0; }
  void Release() {
    values_.reset();
    capacity_ = row_count_ = 0;
  }

 private:
  void Grow() {
    // Not a power of two: columns a multiple of 4 KiB apart would fight for the same cache lines.
    const size_t capacity = capacity_ == 0 ? 24 : capacity_ * 2 + 24;
    auto values = std::make_unique_for_overwrite<uint64_t[]>(capacity * column_count_);
    for (size_t i = 0; i < column_count_ && row_count_ != 0; ++i) {
      std::memcpy(values.get() + i * capacity, values_.get() + i * capacity_, row_count_ * sizeof(uint64_t));
    }
    values_ = std::move(values);
    capacity_ = capacity;
  }

  size_t column_count_;
  size_t row_count_ = 0;
  size_t capacity_ = 0;
  std::unique_ptr<uint64_t[]> values_;
};

}  // namespace smeltr::session
