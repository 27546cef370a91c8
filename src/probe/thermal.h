// How hot the machine is and whether it is held back: ThermalState, on change, once a minute, and at the
// start of each recording.
//
// level on Linux, from thermal zones, hardware monitors and the GPU's own reasons:
//   nominal   all below their limits
//   moderate  within 5 degrees of where the hardware slows down, or software holds it back for heat
//   heavy     at or above that, or the hardware holds back
//   critical  at or above a critical limit
// On macOS it is the kernel's: nominal, moderate, heavy, trapping, sleeping.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "probe/gpu_ledger.h"
#include "probe/probe.h"
#include "probe/roots.h"

namespace smeltr::probe {

std::unique_ptr<Probe> MakeThermalProbe(std::shared_ptr<GpuLedger> ledger, const Roots& roots = {});

// 0 to 3: nominal, moderate, heavy, critical.
std::string_view ThermalLevelName(int level);
// `slowdown_c` and `critical_c` 0 where they are not known.
int ThermalLevel(double temperature_c, double slowdown_c, double critical_c);

// When to tell: on change, once a minute, and once for each recording. Not thread-safe.
class ThermalNews {
 public:
  // True: tell now, which counts as told.
  bool IsDue(const Context& context, int level, std::string_view throttle_reasons);

 private:
  uint64_t told_ns_ = 0;
  int told_level_ = 0;
  std::string told_reasons_;
  std::set<std::string, std::less<>> known_sessions_;
};

}  // namespace smeltr::probe
