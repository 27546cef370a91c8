// The session of everything that belongs to no recording: what the probes see of the machine, marks made
// while nothing is recorded. Always open; a new one begins every day and when it gets large. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/session_log.h"

namespace smeltr::daemon {

class Ambient {
 public:
  // `context` outlives it. Without a disk that takes it there is none until there is: see log().
  Ambient(std::filesystem::path sessions_directory, const LogContext& context)
      : sessions_directory_(std::move(sessions_directory)), context_(context) {}

  // nullptr while it cannot be made; that is logged.
  SessionLog* log() { return log_.has_value() ? &*log_ : nullptr; }
  void Append(const event::Event& event);
  // Opens, flushes, and begins a new one when it is time.
  void Poll(uint64_t now_ns);
  // The end of the daemon. Idempotent.
  void Close(std::string_view reason);

 private:
  void Open(uint64_t now_ns);

  std::filesystem::path sessions_directory_;
  const LogContext& context_;
  std::optional<SessionLog> log_;
  uint64_t opened_ns_ = 0;
  uint64_t retry_ns_ = 0;
  LogThrottle throttle_{600 * kNsPerSecond};
};

}  // namespace smeltr::daemon
