// Event <-> bytes of one ring frame. No heap; refuses what does not fit.
//
// A frame: u32 size of the whole frame, u16 kind, u8 api, u8 zero, u64 ts_ns, then the fields of the
// kind in the order of kinds.def, packed, little-endian:
//   integers, doubles, enums, bool   their own width
//   Text    u32: 0 empty; top bit clear: id in the ring's string table; top bit set: inline, the low
//           16 bits are the length and the characters follow
//   List    u32 count, then the elements
// Frames carry neither pid nor tid: the ring and its blocks know them. A frame may end before fields
// its writer did not know, and may have a tail its reader does not know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

#include "base/bytes.h"
#include "base/result.h"
#include "event/event.h"

namespace smeltr::event {

struct FrameHeader {
  uint32_t size_bytes;
  uint16_t kind_number;
  Api api;
  uint8_t reserved;
  uint64_t ts_ns;
};
static_assert(sizeof(FrameHeader) == 16, "part of the ring layout: bump ring::kVersion when it changes");

inline constexpr uint32_t kInlineText = 0x8000'0000U;
// Longer text is cut at a character boundary, in every writer alike.
inline constexpr size_t kMaxTextBytes = 4096;

// `text` cut to at most `limit` bytes without splitting a UTF-8 character.
constexpr std::string_view CutText(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text;
  size_t length = limit;
  while (length > 0 && (static_cast<unsigned char>(text[length]) & 0xC0) == 0x80) --length;
  return {text.data(), length};  // NOLINT(bugprone-suspicious-stringview-data-usage)
}

namespace internal {

template <typename T>
struct IsList : std::false_type {};
template <typename T>
struct IsList<List<T>> : std::true_type {};

// What a value takes in every frame; the characters of inline texts and the elements of lists come on top.
template <typename T>
consteval size_t FixedBytes() {
  if constexpr (std::same_as<T, bool>) {
    return 1;
  } else if constexpr (Scalar<T>) {
    return sizeof(T);
  } else if constexpr (std::same_as<T, Text> || IsList<T>::value) {
    return sizeof(uint32_t);
  } else {
    size_t sum = 0;
    T fields{};
    VisitFields(fields, [&sum]<typename F>(std::string_view, bool, const F&) { sum += FixedBytes<F>(); });
    return sum;
  }
}

// Interner: uint32_t Intern(std::string_view), 0 when the table is full.
//
// The fixed part is checked once, up front. `room` is what is left beside it, so storing fixed values
// never changes it and needs no check; only texts and lists use it up.
template <typename Interner>
struct FieldEncoder {
  std::byte* at;
  size_t room;
  Interner& strings;
  bool ok = true;

  bool Require(size_t size) {
    if (size > room) ok = false;
    if (ok) room -= size;
    return ok;
  }

  template <Scalar T>
  void Encode(T value) {
    std::memcpy(at, &value, sizeof(T));
    at += sizeof(T);
  }
  void Encode(const Text& text) {
    if (text.interned != 0) return Encode(text.interned);
    const std::string_view view = CutText(text.view, kMaxTextBytes);
    if (view.empty()) return Encode(uint32_t{0});
    if (const uint32_t id = strings.Intern(view); id != 0) return Encode(id);
    Encode(kInlineText | static_cast<uint32_t>(view.size()));
    if (!Require(view.size())) return;
    std::memcpy(at, view.data(), view.size());
    at += view.size();
  }
  template <typename T>
  void Encode(const List<T>& list) {
    Encode(static_cast<uint32_t>(list.size()));
    if (list.size() > room || !Require(list.size() * FixedBytes<T>())) {
      ok = false;
      return;
    }
    for (const T& element : list) Encode(element);
  }
  template <typename T>
    requires(std::is_class_v<T> && !std::same_as<T, Text> && !IsList<T>::value)
  void Encode(const T& fields) {
    VisitFields(fields, *this);
  }

  template <typename T>
  void operator()(std::string_view, bool, const T& field) {
    Encode(field);
  }
};

}  // namespace internal

// Writes one frame into `space`; returns its size, or 0 when it does not fit. E: a struct of kinds.def.
template <typename E, typename Interner>
[[gnu::always_inline]] inline size_t EncodeFrame(Api api, uint64_t ts_ns, const E& fields, Interner& strings,
                                                 std::span<std::byte> space) {
  constexpr size_t kFixedBytes = sizeof(FrameHeader) + internal::FixedBytes<E>();
  if (space.size() < kFixedBytes) return 0;
  internal::FieldEncoder<Interner> encoder{
      .at = space.data() + sizeof(FrameHeader), .room = space.size() - kFixedBytes, .strings = strings};
  VisitFields(fields, encoder);
  if (!encoder.ok) return 0;
  const auto size = static_cast<size_t>(encoder.at - space.data());
  const FrameHeader header{.size_bytes = static_cast<uint32_t>(size),
                           .kind_number = static_cast<uint16_t>(E::kKind),
                           .api = api,
                           .reserved = 0,
                           .ts_ns = ts_ns};
  std::memcpy(space.data(), &header, sizeof(header));
  return size;
}

// Resolves an id of the ring's string table; empty text for ids that do not exist. Never trusts the id.
class StringSource {
 public:
  virtual ~StringSource() = default;
  virtual std::string_view Lookup(uint32_t id) = 0;
};

// Bump storage for the lists of decoded events. Reset() before each event or batch.
class DecodeArena {
 public:
  explicit DecodeArena(std::span<std::byte> storage) : storage_(storage) {}
  void Reset() { used_ = 0; }

  // `count` value-initialised T, or an empty span when it does not fit.
  template <typename T>
  std::span<T> Allocate(size_t count);

 private:
  std::span<std::byte> storage_;
  size_t used_ = 0;
};

// One frame, as found in a ring that a stranger may have scribbled on. `frame` holds exactly the bytes
// of FrameHeader::size_bytes. Text and List fields of the result point into `frame`, `strings` or
// `arena`. pid, tid and seq of the envelope stay 0. Unknown kinds come back as Opaque.
Result<Event> DecodeFrame(std::span<const std::byte> frame, StringSource& strings, DecodeArena& arena);

template <typename T>
std::span<T> DecodeArena::Allocate(size_t count) {
  const auto base = reinterpret_cast<uintptr_t>(storage_.data());
  const size_t start = ((base + used_ + alignof(T) - 1) & ~(alignof(T) - 1)) - base;
  if (start > storage_.size() || count > (storage_.size() - start) / sizeof(T)) return {};
  used_ = start + count * sizeof(T);
  auto* first = reinterpret_cast<T*>(storage_.data() + start);
  for (size_t i = 0; i < count; ++i) new (first + i) T{};
  return {first, count};
}

}  // namespace smeltr::event
