// The different list elements of a block, less their 64-bit numbers: the kernels of a loop come back step
// after step and differ in their times alone. Each is kept once, in the order of first appearance.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "event/event.h"
#include "session/schema.h"
#include "session/text_table.h"

namespace smeltr::session {

// Whether a field belongs to the shape, as Field::in_shape() says it.
template <typename T>
inline constexpr bool kInShape = !(Scalar<T> && sizeof(T) == sizeof(uint64_t));

template <typename T>
constexpr uint64_t NumberOf(T value) {
  if constexpr (std::same_as<T, double>) {
    return std::bit_cast<uint64_t>(value);
  } else {
    return static_cast<uint64_t>(value);
  }
}

class ShapeTable {
 public:
  explicit ShapeTable(const Schema& element);

  // The number of the element's shape, 0 for the first; a new one where there is none like it yet.
  template <typename T>
  uint32_t Find(const T& element, TextTable& texts);

  size_t count() const { return next_.size(); }
  size_t column_count() const { return column_count_; }
  size_t capacity_bytes() const { return numbers_.capacity() * sizeof(uint64_t); }
  // The values of one column, for each shape.
  std::vector<uint64_t> Column(size_t index) const;

  void Clear();
  void Release();

 private:
  uint32_t FindNumbers();
  void Grow();
  uint64_t HashOf(std::span<const uint64_t> row) const;
  std::span<const uint64_t> Row(uint32_t shape) const {
    return std::span(numbers_).subspan(shape * column_count_, column_count_);
  }

  size_t column_count_;
  std::vector<uint64_t> numbers_;  // Row after row.
  std::vector<uint64_t> row_;      // The one looked for.
  std::vector<uint32_t> slots_;    // Open addressing, power of two; shape + 1, 0 = free.
  std::vector<uint32_t> next_;     // The shape that last came after each: most often it does so again.
  uint32_t last_ = 0;
};

namespace internal {

// Names are a few words long: comparing them in place takes less than a call.
inline bool SameText(std::string_view a, std::string_view b) {
  if (a.size() != b.size()) return false;
  if (a.size() < sizeof(uint64_t)) return a == b;
  const auto differ = [&](size_t at) {
    uint64_t left;
    uint64_t right;
    std::memcpy(&left, a.data() + at, sizeof(left));
    std::memcpy(&right, b.data() + at, sizeof(right));
    return left ^ right;
  };
  const size_t last = a.size() - sizeof(uint64_t);
  uint64_t difference = differ(last);
  for (size_t at = 0; at < last; at += sizeof(uint64_t)) difference |= differ(at);
  return difference == 0;
}

struct ShapeComparer {
  const uint64_t* number;
  const TextTable& texts;
  bool equal = true;

  template <typename T>
  void operator()(std::string_view, bool, const T& field) {
    if constexpr (std::same_as<T, event::Text>) {
      equal = equal && SameText(texts.Find(*number++), field.view);
    } else if constexpr (kInShape<T>) {
      equal = equal && *number++ == NumberOf(field);
    }
  }
};

struct ShapeNumbers {
  uint64_t* number;
  TextTable& texts;

  template <typename T>
  void operator()(std::string_view, bool, const T& field) {
    if constexpr (std::same_as<T, event::Text>) {
      *number++ = texts.Intern(field.view);
    } else if constexpr (kInShape<T>) {
      *number++ = NumberOf(field);
    }
  }
};

}  // namespace internal

template <typename T>
uint32_t ShapeTable::Find(const T& element, TextTable& texts) {
  if (!next_.empty()) {
    const uint32_t expected = next_[last_];
    internal::ShapeComparer comparer{numbers_.data() + expected * column_count_, texts};
    VisitFields(element, comparer);
    if (comparer.equal) return last_ = expected;
  }
  VisitFields(element, internal::ShapeNumbers{row_.data(), texts});
  const uint32_t shape = FindNumbers();
  next_[last_] = shape;
  return last_ = shape;
}

}  // namespace smeltr::session
