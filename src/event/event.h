// Event structs, expanded from kinds.def, and the envelope around them.
#pragma once

#include <concepts>
#include <cstdint>
#include <type_traits>
#include <variant>

#include "event/types.h"

namespace smeltr::event {

enum class Kind : uint16_t {
  kUnknown = 0,
#define KIND(number, name, source, naming) k##name = number,
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
};

// One past the largest kind number; sizes per-kind tables. Larger numbers come only from newer writers.
inline constexpr uint16_t kKindLimit = 128;

// struct Attribute { Text key{}; ... }; and friends.
#define ELEMENT(name) struct name {
#define END_ELEMENT(name)                                     \
  friend bool operator==(const name&, const name&) = default; \
  }                                                           \
  ;
#define FIELD(type, name) type name{};
#include "event/kinds.def"

// struct CbCommitted { static constexpr Kind kKind = ...; CbId cb_id{}; ... };
#define KIND(number, name, source, naming) \
  struct name {                            \
    static constexpr Kind kKind = Kind::k##name;
#define END_KIND(name) \
  }                    \
  ;
#define FIELD(type, name) type name{};
#include "event/kinds.def"

// A kind this build does not know, kept as its frame bytes.
struct Opaque {
  static constexpr Kind kKind = Kind::kUnknown;
  uint16_t kind_number = 0;
  List<std::byte> bytes{};
};

// VisitFields(event, visitor) calls visitor(key, optional, field) for each field in order.
#define KIND(number, name, source, naming)              \
  template <typename E, typename V>                     \
    requires std::same_as<std::remove_const_t<E>, name> \
  constexpr void VisitFields(E& fields, V&& visitor) {
#define END_KIND(name) }
#define ELEMENT(name) KIND(0, name, 0, 0)
#define END_ELEMENT(name) }
#define FIELD(type, name) visitor(std::string_view(#name), false, fields.name);
#define OPTIONAL(type, name) visitor(std::string_view(#name), true, fields.name);
#include "event/kinds.def"

#define KIND(number, name, source, naming) , name
#define END_KIND(name)
#define FIELD(type, name)
using Payload = std::variant<Opaque
#include "event/kinds.def"
                             >;

// Who said it and when.
struct Envelope {
  uint64_t ts_ns = 0;  // Session clock (base/clock.h), at the source.
  uint64_t seq = 0;    // 1, 2, 3 ... per session in append order; 0 before the session gave one.
  uint32_t pid = 0;    // The process it happened in; 0 = none.
  uint32_t tid = 0;
  Api api = Api::kNone;

  friend bool operator==(const Envelope&, const Envelope&) = default;
};

struct Event {
  Envelope envelope;
  Payload payload;
};

inline Kind KindOf(const Payload& payload) {
  return std::visit([](const auto& fields) { return std::remove_cvref_t<decltype(fields)>::kKind; }, payload);
}

}  // namespace smeltr::event
