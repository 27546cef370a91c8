// The machine's memory, swap and how hard it is pressed: VmSample, and PressureSample where the system
// counts stalls.
//
// VmSample::pressure on Linux, from MemAvailable and the memory line of /proc/pressure (10 s averages):
//   critical  available below 2 %, or all tasks stalled for 20 % of the time
//   warning   available below 10 %, or some task stalled for 10 %, or all for 5 %
//   normal    else
// On macOS it is the kernel's own level.
#pragma once

#include <memory>

#include "probe/probe.h"
#include "probe/roots.h"

namespace smeltr::probe {

std::unique_ptr<Probe> MakeVmProbe(const Roots& roots = {});

// `memory_some_pct` and `memory_full_pct` 0 where they are not known; `total_bytes` 0: by stalls alone.
std::string_view PressureLevel(uint64_t available_bytes, uint64_t total_bytes, double memory_some_pct,
                               double memory_full_pct);

}  // namespace smeltr::probe
