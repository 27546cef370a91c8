// The system's log, for what it says about GPUs, memory kills and crashes: /dev/kmsg or the journal on Linux,
// the unified log on macOS.
#pragma once

#include <memory>

#include "base/fd.h"
#include "probe/probe.h"

namespace smeltr::probe {

std::unique_ptr<Probe> MakeKernelLogProbe();

// Linux, for tests: every read() of `records` gives one record as /dev/kmsg does, or EAGAIN.
std::unique_ptr<Probe> MakeKernelLogProbe(Fd records);

}  // namespace smeltr::probe
