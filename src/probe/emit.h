// Making events in a probe.
#pragma once

#include <cstdint>
#include <string_view>

#include "event/event.h"

namespace smeltr::probe {

// An event of time `ts_ns` about process `pid` (0: the machine).
template <typename E>
event::Event MakeEvent(uint64_t ts_ns, uint32_t pid, const E& fields) {
  event::Event event;
  event.envelope.ts_ns = ts_ns;
  event.envelope.pid = pid;
  event.payload = fields;
  return event;
}

// What a counter grew by in a second; 0 when it was set back or no time has passed.
inline double PerSecond(uint64_t before, uint64_t now, uint64_t elapsed_ns) {
  if (now < before || elapsed_ns == 0) return 0;
  return static_cast<double>(now - before) * 1e9 / static_cast<double>(elapsed_ns);
}

}  // namespace smeltr::probe
