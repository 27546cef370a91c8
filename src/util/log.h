// One line an entry, to stderr (which the daemon has pointed at $SMELTR_HOME/smeltrd.log).
// Thread-safe: an entry is one write.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

namespace smeltr {

enum class LogLevel : uint8_t { kDebug, kInfo, kWarning, kError, kNothing };

// "debug", "info", "warn", "error", "off"; anything else is `fallback`.
LogLevel ParseLogLevel(std::string_view text, LogLevel fallback);
void SetLogLevel(LogLevel lowest);

// "2025-01-31T12:00:00.123Z warn  text". Line breaks and control characters in `text` become spaces: what
// a stranger wrote cannot forge an entry.
void Log(LogLevel level, std::string_view text);

// Keeps an entry that repeats thousands of times a second from filling the disk.
class LogThrottle {
 public:
  explicit LogThrottle(uint64_t period_ns) : period_ns_(period_ns) {}
  // Logs the first entry of a `key` and then at most one a period, saying how many were left out.
  void Log(LogLevel level, std::string_view key, std::string_view text, uint64_t now_ns);

 private:
  struct Seen {
    uint64_t last_ns = 0;
    uint64_t left_out = 0;
  };
  uint64_t period_ns_;
  std::map<std::string, Seen, std::less<>> seen_;  // Keys are chosen in the code: few.
};

}  // namespace smeltr
