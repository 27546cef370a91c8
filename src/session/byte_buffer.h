// Bytes being put together: grows, and keeps its memory when cleared.
#pragma once

#include <cstring>
#include <span>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace smeltr::session {

class ByteBuffer {
 public:
  size_t size() const { return bytes_.size(); }
  std::span<const std::byte> view() const { return bytes_; }
  std::byte* data() { return bytes_.data(); }
  void Clear() { bytes_.clear(); }

  // `count` bytes to be written by the caller; the span is valid until the next call.
  std::span<std::byte> Extend(size_t count) {
    bytes_.resize(bytes_.size() + count);
    return std::span(bytes_).last(count);
  }
  void Shrink(size_t size) { bytes_.resize(size); }

  template <Scalar T>
  void Put(T value) {
    std::memcpy(Extend(sizeof(T)).data(), &value, sizeof(T));
  }
  template <Scalar T>
  void PutAt(size_t position, T value) {
    std::memcpy(bytes_.data() + position, &value, sizeof(T));
  }
  void PutBytes(std::span<const std::byte> bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  void PutText(std::string_view text) { PutBytes(std::as_bytes(std::span(text))); }
  void PutVarint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<std::byte>(value | 0x80));
    bytes_.push_back(static_cast<std::byte>(value));
  }

 private:
  std::vector<std::byte> bytes_;
};

}  // namespace smeltr::session
