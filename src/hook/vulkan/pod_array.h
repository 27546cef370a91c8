// A growing array of trivial elements that keeps its memory when cleared. Running out of memory makes Push
// return false; it never throws or aborts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <type_traits>

namespace smeltr::hook::vulkan {

template <typename T>
class PodArray {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  PodArray() = default;
  PodArray(const PodArray&) = delete;
  PodArray& operator=(const PodArray&) = delete;
  ~PodArray() { std::free(data_); }

  bool Push(const T& value) {
    if (size_ == capacity_ && !Reserve(size_ + 1)) return false;
    data_[size_++] = value;
    return true;
  }
  bool Append(std::span<const T> values) {
    if (values.empty()) return true;
    if (!Reserve(size_ + values.size())) return false;
    std::memcpy(static_cast<void*>(data_ + size_), values.data(), values.size() * sizeof(T));
    size_ += values.size();
    return true;
  }
  void Pop() { --size_; }
  void Clear() { size_ = 0; }

  bool empty() const { return size_ == 0; }
  size_t size() const { return size_; }
  T& operator[](size_t index) { return data_[index]; }
  const T& operator[](size_t index) const { return data_[index]; }
  T& back() { return data_[size_ - 1]; }
  const T& back() const { return data_[size_ - 1]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }
  std::span<const T> view() const { return {data_, size_}; }

 private:
  bool Reserve(size_t wanted) {
    if (wanted <= capacity_) return true;
    size_t capacity = capacity_ == 0 ? 16 : capacity_;
    while (capacity < wanted) capacity *= 2;
    void* grown = std::realloc(static_cast<void*>(data_), capacity * sizeof(T));
    if (grown == nullptr) return false;
    data_ = static_cast<T*>(grown);
    capacity_ = capacity;
    return true;
  }

  T* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
};

}  // namespace smeltr::hook::vulkan
