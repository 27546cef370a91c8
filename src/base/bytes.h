// Bounds-checked little-endian cursors over bytes that nobody has checked yet. No heap.
// Both cursors remember the first overrun and turn every later call into a no-op, so a caller checks
// `ok()` once at the end.
#pragma once

#include <bit>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <type_traits>

namespace smeltr {

static_assert(std::endian::native == std::endian::little, "on-disk and ring layouts are little-endian");

template <typename T>
concept Scalar = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class ByteReader {
 public:
  explicit ByteReader(std::span<const std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t remaining() const { return bytes_.size() - position_; }
  size_t position() const { return position_; }

  template <Scalar T>
  T Load() {
    T value{};
    if (!Require(sizeof(T))) return value;
    std::memcpy(&value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return value;
  }

  // A view into the underlying bytes; empty after an overrun.
  std::span<const std::byte> Take(size_t count) {
    if (!Require(count)) return {};
    auto part = bytes_.subspan(position_, count);
    position_ += count;
    return part;
  }

  std::string_view TakeText(size_t count) {
    auto part = Take(count);
    return {reinterpret_cast<const char*>(part.data()), part.size()};
  }

  // LEB128, at most 10 bytes.
  uint64_t LoadVarint() {
    uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = Load<uint8_t>();
      if (!ok_) return 0;
      value |= static_cast<uint64_t>(byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return value;
    }
    ok_ = false;
    return 0;
  }

  void MarkBad() { ok_ = false; }

 private:
  bool Require(size_t count) {
    if (!ok_ || count > bytes_.size() - position_) ok_ = false;
    return ok_;
  }

  std::span<const std::byte> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

class ByteWriter {
 public:
  explicit ByteWriter(std::span<std::byte> bytes) : bytes_(bytes) {}

  bool ok() const { return ok_; }
  size_t position() const { return position_; }

  template <Scalar T>
  void Store(T value) {
    if (!Require(sizeof(T))) return;
    std::memcpy(bytes_.data() + position_, &value, sizeof(T));
    position_ += sizeof(T);
  }

  void StoreText(std::string_view text) {
    if (!Require(text.size())) return;
    std::memcpy(bytes_.data() + position_, text.data(), text.size());
    position_ += text.size();
  }

  void MarkBad() { ok_ = false; }

 private:
  bool Require(size_t count) {
    if (!ok_ || count > bytes_.size() - position_) ok_ = false;
    return ok_;
  }

  std::span<std::byte> bytes_;
  size_t position_ = 0;
  bool ok_ = true;
};

// Signed values as small unsigned ones: 0, -1, 1, -2 ... become 0, 1, 2, 3 ...
constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}
constexpr int64_t UnZigZag(uint64_t value) {
  return static_cast<int64_t>(value >> 1) ^ -static_cast<int64_t>(value & 1);
}

}  // namespace smeltr
