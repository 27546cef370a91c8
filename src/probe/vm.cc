#include "probe/vm.h"

namespace smeltr::probe {

std::string_view PressureLevel(uint64_t available_bytes, uint64_t total_bytes, double memory_some_pct,
                               double memory_full_pct) {
  const double available_pct =
      total_bytes == 0 ? 100.0
                       : 100.0 * static_cast<double>(available_bytes) / static_cast<double>(total_bytes);
  if (available_pct < 2 || memory_full_pct >= 20) return "critical";
  if (available_pct < 10 || memory_some_pct >= 10 || memory_full_pct >= 5) return "warning";
  return "normal";
}

}  // namespace smeltr::probe
