// Values in JSON from outside: whatever is missing or of another type is empty.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

namespace smeltr::crash {

using Json = nlohmann::json;

// Null when `object` is no object or has none of this name.
inline const Json& Member(const Json& object, const char* key) {
  static const Json kNothing;
  if (!object.is_object()) return kNothing;
  const auto found = object.find(key);
  return found == object.end() ? kNothing : *found;
}

inline std::string TextOf(const Json& value) {
  return value.is_string() ? value.get<std::string>() : std::string();
}
inline std::string TextOf(const Json& object, const char* key) { return TextOf(Member(object, key)); }

// 0 for what is negative or no whole number.
inline uint64_t NumberOf(const Json& value) {
  if (value.is_number_unsigned()) return value.get<uint64_t>();
  if (value.is_number_integer()) return static_cast<uint64_t>(std::max<int64_t>(value.get<int64_t>(), 0));
  return 0;
}
inline uint64_t NumberOf(const Json& object, const char* key) { return NumberOf(Member(object, key)); }

inline uint32_t PidOf(const Json& object, const char* key) {
  const uint64_t pid = NumberOf(object, key);
  return pid <= std::numeric_limits<uint32_t>::max() ? static_cast<uint32_t>(pid) : 0;
}

}  // namespace smeltr::crash
