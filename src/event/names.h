// Names of kinds: what people and JSON see. No heap.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "event/event.h"

namespace smeltr::event {

enum class Naming : uint8_t { kPlain, kPerApi };

struct KindInfo {
  Kind kind = Kind::kUnknown;
  std::string_view name;  // Without the interface: "CbCommitted".
  Source source = Source::kSystem;
  Naming naming = Naming::kPlain;
};

// All known kinds, by rising number.
std::span<const KindInfo> AllKinds();

// nullptr for kinds this build does not know.
const KindInfo* FindKind(Kind kind);

// A full kind name in a fixed buffer: "VulkanCbCommitted", "Mark", "Kind#77" for unknown ones.
class KindName {
 public:
  KindName(Api api, Kind kind);
  std::string_view view() const { return {text_.data(), length_}; }

 private:
  void Append(std::string_view part);
  std::array<char, 48> text_{};
  size_t length_ = 0;
};

struct ApiKind {
  Api api = Api::kNone;
  Kind kind = Kind::kUnknown;
};

// "VulkanCbCommitted" -> {kVulkan, kCbCommitted}; nothing for a name no kind has.
std::optional<ApiKind> ParseKindName(std::string_view name);

}  // namespace smeltr::event
