// The fields of one of our structs from a CBOR map of an earlier smeltr, by name. For import_v1_events.cc.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <limits>
#include <memory_resource>
#include <new>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "base/bytes.h"
#include "event/event.h"
#include "session/import_cbor.h"

namespace smeltr::session {

// Fields that have another name there. Besides these, "_bytes" may be missing there.
struct V1Alias {
  event::Kind kind;
  std::string_view ours;
  std::string_view theirs;
};
inline constexpr std::array kV1Aliases = {
    V1Alias{event::Kind::kProcFootprint, "target_pid", "pid"},
    V1Alias{event::Kind::kProcFootprint, "process_name", "name"},
    V1Alias{event::Kind::kOsLogLine, "wall_unix_ns", "ts_wall_ns"},
    V1Alias{event::Kind::kCrashReportEmitted, "process_name", "proc_name"},
    V1Alias{event::Kind::kMlxSnapshot, "live_array_count", "live_arrays"},
};

// For VisitFields. Lists and texts that have to be made live in `memory`. Values of another type than
// expected leave the field as it is.
class V1Filler {
 public:
  V1Filler(const CborDocument& document, const CborNode& map, event::Kind kind,
           std::pmr::memory_resource& memory)
      : document_(document), map_(map), kind_(kind), memory_(memory) {}

  template <typename T>
  void operator()(std::string_view key, bool, T& field) {
    if (const CborNode* node = Find(key); node != nullptr) Set(field, *node);
  }

  // visit(std::string_view key) for each key of the map that no field asked for.
  template <typename F>
  void ForEachUnknown(F&& visit) const {
    document_.ForEachPair(map_, [&](const CborNode& key, const CborNode& value) {
      const bool used = std::find(used_.begin(), used_.end(), &value) != used_.end();
      if (!used && key.type == CborType::kText && key.text != "kind") visit(key.text);
    });
  }

 private:
  const CborNode* Find(std::string_view key) {
    const CborNode* node = document_.Find(map_, key);
    if (node == nullptr && key.ends_with("_bytes")) {
      node = document_.Find(map_, key.substr(0, key.size() - std::string_view("_bytes").size()));
    }
    for (const V1Alias& alias : kV1Aliases) {
      if (node == nullptr && alias.kind == kind_ && alias.ours == key) {
        node = document_.Find(map_, alias.theirs);
      }
    }
    if (node != nullptr) used_.push_back(node);
    return node;
  }

  template <typename T>
    requires std::is_integral_v<T>
  void Set(T& field, const CborNode& node) {
    if constexpr (std::is_signed_v<T>) {
      if (const auto value = CborSigned(node); value && std::in_range<T>(*value)) {
        field = static_cast<T>(*value);
      }
    } else {
      if (const auto value = CborUnsigned(node); value && std::in_range<T>(*value)) {
        field = static_cast<T>(*value);
      }
    }
  }
  void Set(bool& field, const CborNode& node) { field = CborUnsigned(node).value_or(0) != 0; }
  void Set(double& field, const CborNode& node) { field = CborReal(node).value_or(field); }
  template <event::IdType T>
  void Set(T& field, const CborNode& node) {
    field = T{CborUnsigned(node).value_or(0)};
  }
  template <event::NamedEnum T>
  void Set(T& field, const CborNode& node) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; };
    for (size_t i = 0; i < event::kEnumSize<T>; ++i) {
      if (std::ranges::equal(event::EnumNames<T>::kNames[i], node.text, {}, lower, lower)) {
        field = static_cast<T>(i);
      }
    }
  }
  void Set(event::Text& field, const CborNode& node) {
    if (node.type == CborType::kText) {
      field = node.text;
    } else if (const auto number = CborSigned(node); number && node.type != CborType::kBool) {
      field = Digits(*number);
    }
  }
  template <typename T>
  void Set(event::List<T>& field, const CborNode& node) {
    if (node.type != CborType::kArray) return;
    const std::span<T> made = Make<T>(node.count);
    size_t i = 0;
    document_.ForEachItem(node, [&](const CborNode& item) { Set(made[i++], item); });
    field = made;
  }
  void Set(event::List<event::Attribute>& field, const CborNode& node) {
    if (node.type != CborType::kMap) return;
    const std::span<event::Attribute> made = Make<event::Attribute>(node.count);
    size_t i = 0;
    document_.ForEachPair(node, [&](const CborNode& key, const CborNode& value) {
      Set(made[i].key, key);
      SetValue(made[i++], value, 0);
    });
    field = made;
  }
  template <typename T>
    requires(std::is_class_v<T>)
  void Set(T& fields, const CborNode& node) {
    if (node.type != CborType::kMap) return;
    V1Filler inner(document_, node, event::Kind::kUnknown, memory_);
    VisitFields(fields, inner);
  }

  // A value, or one in a wrapper that says its type: {"Int": 5}, {"type": "int", "value": 5}.
  void SetValue(event::Attribute& attribute, const CborNode& node, size_t depth) {
    using event::AttributeType;
    switch (node.type) {
      case CborType::kBool:
        attribute.type = AttributeType::kBool;
        attribute.bits = node.number;
        return;
      case CborType::kUnsigned:
      case CborType::kNegative:
        attribute.type = AttributeType::kInt;
        attribute.bits = static_cast<uint64_t>(CborSigned(node).value_or(0));
        return;
      case CborType::kFloat:
        attribute.type = AttributeType::kFloat;
        attribute.bits = std::bit_cast<uint64_t>(node.real);
        return;
      case CborType::kMap: {
        const CborNode* inner = document_.Find(node, "value");
        if (inner == nullptr && node.count == 1) {
          document_.ForEachPair(node, [&](const CborNode&, const CborNode& value) { inner = &value; });
        }
        if (inner != nullptr && depth == 0) SetValue(attribute, *inner, depth + 1);
        return;
      }
      default:
        attribute.type = AttributeType::kString;
        attribute.text = node.text;
    }
  }

  std::string_view Digits(int64_t number) {
    std::array<char, 24> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number).ptr;
    const auto size = static_cast<size_t>(end - digits.data());
    const std::span<char> kept = Make<char>(size);
    std::copy_n(digits.data(), size, kept.data());
    return {kept.data(), kept.size()};
  }
  // Bounded by the nodes of the document.
  template <typename T>
  std::span<T> Make(size_t count) {
    static_assert(std::is_trivially_destructible_v<T>);
    T* const first = static_cast<T*>(memory_.allocate(std::max<size_t>(count, 1) * sizeof(T), alignof(T)));
    for (size_t i = 0; i < count; ++i) new (first + i) T{};
    return {first, count};
  }

  const CborDocument& document_;
  const CborNode& map_;
  event::Kind kind_;
  std::pmr::memory_resource& memory_;
  std::vector<const CborNode*> used_;
};

}  // namespace smeltr::session
