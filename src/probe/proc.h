// Who uses the processor: ProcTop, the ten busiest since the reading before (100 = one core), and helpers
// that tell of trouble. Those that a system starts for a crash are named whenever they run; those that always
// run, once they use 5 % of a core.
#pragma once

#include <memory>

#include "probe/probe.h"
#include "probe/roots.h"

namespace smeltr::probe {

std::unique_ptr<Probe> MakeProcProbe(const Roots& roots = {});

// Whether `name`, maybe cut at 15 characters, is a helper to flag at that use of the processor.
bool IsFlaggedHelper(std::string_view name, double cpu_pct);

}  // namespace smeltr::probe
