// What session logs need around them, with nobody listening.
#pragma once

#include <filesystem>

#include "daemon/session_log.h"

namespace smeltr::daemon {

struct TestLogContext {
  explicit TestLogContext(std::filesystem::path reserve_file) : reserve(std::move(reserve_file)) {}

  Bus bus;
  FlightRecorder recorder{60 * kNsPerSecond, size_t{64} << 20};
  Router router{bus, recorder};
  DiskReserve reserve;
  SyncThread sync;
  LogContext context{reserve, router, sync};
};

}  // namespace smeltr::daemon
