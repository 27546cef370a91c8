// Clocks. Every event time in smeltr is CLOCK_MONOTONIC in ns (mach_absolute_time in ns on macOS):
// one base for all processes of a machine, not stepped by NTP, not running during suspend.
// Device timestamps are converted to it where they are read. Safe anywhere, also in the traced process.
#pragma once

#include <time.h>

#include <cstdint>

namespace smeltr {

inline constexpr uint64_t kNsPerSecond = 1'000'000'000;

// The session clock. About 30 ns a call through the vDSO.
inline uint64_t MonotonicNowNs() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

// Unix time. Only for naming and for joins with the outside world; never for durations.
inline uint64_t WallNowNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * kNsPerSecond + static_cast<uint64_t>(now.tv_nsec);
}

}  // namespace smeltr
