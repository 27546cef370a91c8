#include "session/identity.h"

#include <fmt/format.h>
#include <sys/random.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "base/clock.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

constexpr std::string_view kDirectoryShape = "dddd-dd-dd-dddddd-xxxxxxxx";
constexpr std::string_view kUuidShape = "xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx";

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// 'd' stands for a digit, 'x' for a hex digit, anything else for itself.
bool HasShape(std::string_view text, std::string_view shape) {
  return std::ranges::equal(text, shape, [](char c, char wanted) {
    if (wanted == 'd') return IsDigit(c);
    if (wanted == 'x') return IsHexDigit(c);
    return c == wanted;
  });
}

tm UtcOf(uint64_t unix_ns) {
  const auto seconds = static_cast<time_t>(unix_ns / kNsPerSecond);
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  return utc;
}

}  // namespace

Result<std::string> MakeUuid() {
  std::array<unsigned char, 16> bytes;
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    return Fail(ErrorCode::kIo, "the system gave no random bytes for a session id");
  }
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0F) | 0x40);  // Version 4.
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3F) | 0x80);  // The RFC's variant.
  std::string uuid;
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) uuid += '-';
    uuid += fmt::format("{:02x}", bytes[i]);
  }
  return uuid;
}

bool IsHex(std::string_view text) { return !text.empty() && std::ranges::all_of(text, IsHexDigit); }

std::optional<std::string> NormaliseUuid(std::string_view text) {
  if (!HasShape(text, kUuidShape) && !(text.size() == 32 && IsHex(text))) return std::nullopt;
  std::string hex;
  for (const char c : text) {
    if (c != '-') hex += c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  return hex;
}

bool IsDirectoryName(std::string_view text) { return HasShape(text, kDirectoryShape); }

std::string FormatUtc(uint64_t unix_ns) {
  const tm utc = UtcOf(unix_ns);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, unix_ns % kNsPerSecond / 1'000'000);
}

std::optional<uint64_t> ParseInstant(std::string_view rfc3339) {
  int64_t seconds = 0;
  if (!ParseRfc3339(rfc3339, seconds) || seconds < 0) return std::nullopt;
  uint64_t fraction_ns = 0;
  if (const size_t point = rfc3339.find('.'); point != std::string_view::npos) {
    uint64_t unit_ns = kNsPerSecond / 10;
    for (size_t i = point + 1; i < rfc3339.size() && IsDigit(rfc3339[i]); ++i, unit_ns /= 10) {
      fraction_ns += static_cast<uint64_t>(rfc3339[i] - '0') * unit_ns;
    }
  }
  return static_cast<uint64_t>(seconds) * kNsPerSecond + fraction_ns;
}

std::string InstantOfDirectoryName(std::string_view directory_name) {
  if (directory_name.size() < kDirectoryShape.size()) return {};
  const std::string_view stamp = directory_name.substr(directory_name.size() - kDirectoryShape.size());
  if (!IsDirectoryName(stamp)) return {};
  return fmt::format("{}T{}:{}:{}Z", stamp.substr(0, 10), stamp.substr(11, 2), stamp.substr(13, 2),
                     stamp.substr(15, 2));
}

std::string DirectoryStamp(uint64_t unix_ns) {
  const tm utc = UtcOf(unix_ns);
  return fmt::format("{:04}-{:02}-{:02}-{:02}{:02}{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday,
                     utc.tm_hour, utc.tm_min, utc.tm_sec);
}

}  // namespace smeltr::session
