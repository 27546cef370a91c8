#include "util/log.h"

#include <fmt/format.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "base/clock.h"

namespace smeltr {
namespace {

std::atomic<LogLevel> g_lowest{LogLevel::kInfo};

// Of what a stranger chose, argv[0] say, a line of this length says enough.
constexpr size_t kMaxEntryBytes = 4096;
constexpr std::string_view kNames[] = {"debug", "info", "warn", "error", "off"};

std::string Stamp() {
  const uint64_t now_ns = WallNowNs();
  const auto seconds = static_cast<time_t>(now_ns / kNsPerSecond);
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, now_ns / 1'000'000 % 1000);
}

}  // namespace

LogLevel ParseLogLevel(std::string_view text, LogLevel fallback) {
  for (size_t i = 0; i < std::size(kNames); ++i) {
    if (text == kNames[i]) return static_cast<LogLevel>(i);
  }
  return fallback;
}

void SetLogLevel(LogLevel lowest) { g_lowest.store(lowest, std::memory_order_relaxed); }

void Log(LogLevel level, std::string_view text) {
  if (level < g_lowest.load(std::memory_order_relaxed)) return;
  std::string line = fmt::format("{} {:5} ", Stamp(), kNames[static_cast<size_t>(level)]);
  for (const char c : text.substr(0, kMaxEntryBytes))
    line.push_back(static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? ' ' : c);
  if (text.size() > kMaxEntryBytes) line += " ...";
  line.push_back('\n');
  // A log that cannot be written (full disk, closed pipe) must never be a reason to stop.
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

void LogThrottle::Log(LogLevel level, std::string_view key, std::string_view text, uint64_t now_ns) {
  auto [entry, is_new] = seen_.try_emplace(std::string(key));
  Seen& seen = entry->second;
  if (!is_new && now_ns - seen.last_ns < period_ns_) {
    ++seen.left_out;
    return;
  }
  seen.last_ns = now_ns;
  if (seen.left_out == 0) return smeltr::Log(level, text);
  smeltr::Log(level, fmt::format("{} ({} more like it left out)", text, seen.left_out));
  seen.left_out = 0;
}

}  // namespace smeltr
