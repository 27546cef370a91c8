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
  return text.substr(0, length);
}

namespace internal {

template <typename T>
struct IsList : std::false_type {};
template <typename T>
struct IsList<List<T>> : std::true_type {};

// Interner: uint32_t Intern(std::string_view), 0 when the table is full.
template <typename Interner>
struct FieldEncoder {
  ByteWriter& out;
  Interner& strings;

  void Encode(const Text& text) {
    if (text.interned != 0) return out.Store(text.interned);
    const std::string_view view = CutText(text.view, kMaxTextBytes);
    if (view.empty()) return out.Store(uint32_t{0});
    if (const uint32_t id = strings.Intern(view); id != 0) return out.Store(id);
    out.Store(kInlineText | static_cast<uint32_t>(view.size()));
    out.StoreText(view);
  }
  template <Scalar T>
  void Encode(T value) {
    out.Store(value);
  }
  template <typename T>
  void Encode(const List<T>& list) {
    out.Store(static_cast<uint32_t>(list.size()));
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
size_t EncodeFrame(Api api, uint64_t ts_ns, const E& fields, Interner& strings, std::span<std::byte> space) {
  ByteWriter out(space);
  out.Store(uint32_t{0});  // FrameHeader, field by field; the size is known at the end.
  out.Store(static_cast<uint16_t>(E::kKind));
  out.Store(api);
  out.Store(uint8_t{0});
  out.Store(ts_ns);
  internal::FieldEncoder<Interner> encoder{out, strings};
  VisitFields(fields, encoder);
  if (!out.ok()) return 0;
  const auto size = static_cast<uint32_t>(out.position());
  std::memcpy(space.data(), &size, sizeof(size));
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
