#include "util/format.h"

#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace smeltr {
namespace {

// `value` with as many decimals as make three digits: 1.23, 12.3, 123.
std::string ThreeDigits(double value) {
  if (value < 9.995) return fmt::format("{:.2f}", value);
  if (value < 99.95) return fmt::format("{:.1f}", value);
  return fmt::format("{:.0f}", value);
}

// Length of the well-formed UTF-8 character at the start of `text`, 0 when it is malformed.
size_t CharacterLength(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  size_t length = 0;
  unsigned minimum = 0;
  unsigned code = 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) length = 2, minimum = 0x80, code = first & 0x1FU;
  if (first >= 0xE0 && first <= 0xEF) length = 3, minimum = 0x800, code = first & 0x0FU;
  if (first >= 0xF0 && first <= 0xF4) length = 4, minimum = 0x10000, code = first & 0x07U;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    const auto next = static_cast<unsigned char>(text[i]);
    if ((next & 0xC0) != 0x80) return 0;
    code = code << 6 | (next & 0x3FU);
  }
  const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
  return code < minimum || code > 0x10FFFF || surrogate ? 0 : length;
}

size_t StepLength(std::string_view text) {
  const size_t length = CharacterLength(text);
  return length == 0 ? 1 : length;
}

// C0, DEL and C1 controls, and the marks that reorder or hide text around them.
bool IsUnsafe(std::string_view character) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(character[i]); };
  if (character.size() == 1) return byte(0) < 0x20 || byte(0) == 0x7F;
  if (character.size() == 2) return byte(0) == 0xC2 && byte(1) < 0xA0;
  if (character.size() != 3 || byte(0) != 0xE2) return false;
  const unsigned tail = unsigned{byte(1)} << 8 | byte(2);
  const bool separators_and_overrides = tail >= 0x80A8 && tail <= 0x80AE;  // U+2028 .. U+202E
  const bool isolates = tail >= 0x81A6 && tail <= 0x81A9;                  // U+2066 .. U+2069
  return separators_and_overrides || isolates;
}

bool ParseNumber(std::string_view text, size_t start, size_t count, int& value) {
  if (start + count > text.size()) return false;
  for (size_t i = start; i < start + count; ++i) {
    if (text[i] < '0' || text[i] > '9') return false;
  }
  std::from_chars(text.data() + start, text.data() + start + count, value);
  return true;
}

// The offset behind the seconds, "Z" or "+02:00", in seconds east of UTC.
bool ParseOffset(std::string_view text, int& seconds) {
  seconds = 0;
  if (text == "Z" || text == "z") return true;
  int hours = 0;
  int minutes = 0;
  if (text.size() != 6 || (text[0] != '+' && text[0] != '-') || text[3] != ':') return false;
  if (!ParseNumber(text, 1, 2, hours) || !ParseNumber(text, 4, 2, minutes)) return false;
  if (hours > 23 || minutes > 59) return false;
  seconds = (hours * 60 + minutes) * 60 * (text[0] == '-' ? -1 : 1);
  return true;
}

// The factor of "", "B", "K", "KiB", "kB" ...; nothing for anything else.
std::optional<double> UnitBytes(std::string_view unit) {
  std::string upper(unit);
  for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  if (upper.empty() || upper == "B") return 1;
  const size_t power = std::string_view("KMGT").find(upper[0]);
  const std::string_view rest = std::string_view(upper).substr(1);
  if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "IB")) return std::nullopt;
  return std::pow(rest == "B" ? 1000.0 : 1024.0, static_cast<double>(power + 1));
}

}  // namespace

std::string FormatDuration(uint64_t ns) {
  if (ns < 1000) return fmt::format("{} ns", ns);
  const auto value = static_cast<double>(ns);
  // The upper bounds are where three digits would round up to the next unit.
  if (ns < 999'500) return ThreeDigits(value / 1e3) + " us";
  if (ns < 999'500'000) return ThreeDigits(value / 1e6) + " ms";
  if (ns < 59'950'000'000) return ThreeDigits(value / 1e9) + " s";
  const uint64_t seconds = ns / 1'000'000'000 + (ns % 1'000'000'000 >= 500'000'000 ? 1 : 0);
  if (seconds < 7200) return fmt::format("{} min {:02} s", seconds / 60, seconds % 60);
  return fmt::format("{} h {:02} min", seconds / 3600, seconds / 60 % 60);
}

std::string FormatBytes(uint64_t bytes) {
  if (bytes < 1024) return fmt::format("{} B", bytes);
  const auto value = static_cast<double>(bytes);
  constexpr double kKiB = 1024.0;
  if (value < 1023.5 * kKiB) return fmt::format("{:.0f} KiB", value / kKiB);
  if (value < 1023.95 * kKiB * kKiB) return fmt::format("{:.1f} MiB", value / (kKiB * kKiB));
  return fmt::format("{:.2f} GiB", value / (kKiB * kKiB * kKiB));
}

std::optional<uint64_t> ParseBytes(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  const size_t digits = std::min(text.find_first_not_of("0123456789."), text.size());
  double value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + digits, value, std::chars_format::fixed);
  if (error != std::errc() || end != text.data() + digits) return std::nullopt;
  text.remove_prefix(digits);
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  const std::optional<double> unit = UnitBytes(text);
  if (!unit) return std::nullopt;
  // Below 2^63, so that the conversion is defined; nobody has more.
  const double bytes = value * *unit;
  return bytes < 9.2e18 ? std::optional(static_cast<uint64_t>(bytes)) : std::nullopt;
}

std::string FormatCount(uint64_t count) {
  std::string digits = fmt::format("{}", count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return digits;
}

std::string FormatCounted(uint64_t count, std::string_view singular, std::string_view plural) {
  if (count == 1) return fmt::format("1 {}", singular);
  if (!plural.empty()) return fmt::format("{} {}", FormatCount(count), plural);
  return fmt::format("{} {}s", FormatCount(count), singular);
}

std::string FormatPercent(uint64_t part, uint64_t whole) {
  if (whole == 0 || part == 0) return "0.0";
  const double percent = 100.0 * static_cast<double>(part) / static_cast<double>(whole);
  if (percent < 0.05) return "<0.1";
  if (part < whole && percent >= 99.95) return ">99.9";
  return fmt::format("{:.1f}", percent);
}

size_t TextWidth(std::string_view text) {
  size_t width = 0;
  while (!text.empty()) {
    text.remove_prefix(StepLength(text));
    ++width;
  }
  return width;
}

std::string Truncate(std::string_view text, size_t width) {
  if (TextWidth(text) <= width) return std::string(text);
  if (width == 0) return {};
  size_t end = 0;
  for (size_t i = 0; i + 1 < width; ++i) end += StepLength(text.substr(end));
  return std::string(text.substr(0, end)) + "…";
}

std::string Printable(std::string_view text) {
  std::string safe;
  safe.reserve(text.size());
  while (!text.empty()) {
    const size_t length = CharacterLength(text);
    const std::string_view character = text.substr(0, length);
    if (length == 0 || IsUnsafe(character)) {
      safe += '?';
    } else {
      safe += character;
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return safe;
}

std::string FormatLocalTime(int64_t unix_seconds) {
  const time_t when = unix_seconds;
  tm parts{};
  if (localtime_r(&when, &parts) == nullptr) return "?";
  return fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec);
}

bool ParseRfc3339(std::string_view text, int64_t& unix_seconds) {
  int year = 0;
  int month = 0;
  int day = 0;
  int hour = 0;
  int minute = 0;
  int second = 0;
  const bool digits = ParseNumber(text, 0, 4, year) && ParseNumber(text, 5, 2, month) &&
                      ParseNumber(text, 8, 2, day) && ParseNumber(text, 11, 2, hour) &&
                      ParseNumber(text, 14, 2, minute) && ParseNumber(text, 17, 2, second);
  if (!digits || text[4] != '-' || text[7] != '-' || text[13] != ':' || text[16] != ':') return false;
  if (text[10] != 'T' && text[10] != 't' && text[10] != ' ') return false;
  if (month < 1 || month > 12 || day < 1 || day > 31 || hour > 23 || minute > 59 || second > 60) return false;
  size_t end = 19;
  if (end < text.size() && text[end] == '.') {
    ++end;
    while (end < text.size() && text[end] >= '0' && text[end] <= '9') ++end;
  }
  int offset_seconds = 0;
  if (!ParseOffset(text.substr(end), offset_seconds)) return false;
  tm parts{};
  parts.tm_year = year - 1900;
  parts.tm_mon = month - 1;
  parts.tm_mday = day;
  parts.tm_hour = hour;
  parts.tm_min = minute;
  parts.tm_sec = second;
  unix_seconds = static_cast<int64_t>(timegm(&parts)) - offset_seconds;
  return true;
}

std::string SignalName(int signal) {
  struct Named {
    int number;
    std::string_view name;
  };
  static constexpr std::array<Named, 14> kSignals{{
      {SIGHUP, "SIGHUP"},
      {SIGINT, "SIGINT"},
      {SIGQUIT, "SIGQUIT"},
      {SIGILL, "SIGILL"},
      {SIGTRAP, "SIGTRAP"},
      {SIGABRT, "SIGABRT"},
      {SIGBUS, "SIGBUS"},
      {SIGFPE, "SIGFPE"},
      {SIGKILL, "SIGKILL"},
      {SIGSEGV, "SIGSEGV"},
      {SIGPIPE, "SIGPIPE"},
      {SIGALRM, "SIGALRM"},
      {SIGTERM, "SIGTERM"},
      {SIGXCPU, "SIGXCPU"},
  }};
  for (const Named& known : kSignals) {
    if (known.number == signal) return std::string(known.name);
  }
  return fmt::format("signal {}", signal);
}

}  // namespace smeltr
