// Ids and instants of sessions, as text.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smeltr::session {

// A random UUID (version 4), dashed, lower case.
Result<std::string> MakeUuid();

// Lower case without dashes, if `text` is 32 hex digits with or without the dashes of a UUID.
std::optional<std::string> NormaliseUuid(std::string_view text);
bool IsHex(std::string_view text);
// "2026-03-01-140509-1a2b3c4d"
bool IsDirectoryName(std::string_view text);

// "2026-03-01T14:05:09.123Z"
std::string FormatUtc(uint64_t unix_ns);
// An RFC 3339 instant in ns since 1970, fraction included.
std::optional<uint64_t> ParseInstant(std::string_view rfc3339);
// The instant in a directory's name, as RFC 3339; empty when there is none.
std::string InstantOfDirectoryName(std::string_view directory_name);
// "2026-03-01-140509" of an RFC 3339 instant in UTC.
std::string DirectoryStamp(uint64_t unix_ns);

}  // namespace smeltr::session
