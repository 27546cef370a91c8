// Who uses the processor: ProcTop, the ten busiest since the reading before (100 = one core), and helpers
// that tell of trouble. Those that a system starts for a crash are named whenever they run; those that always
// run, once they use 5 % of a core.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "probe/probe.h"
#include "probe/process_tree.h"
#include "probe/roots.h"

namespace smeltr::probe {

std::unique_ptr<Probe> MakeProcProbe(const Roots& roots = {});

// Whether `name`, maybe cut at 15 characters, is a helper to flag at that use of the processor.
bool IsFlaggedHelper(std::string_view name, double cpu_pct);

// The system's part.
// A process's name in full, where the kernel may have cut it.
std::string FullProcessName(const std::string& proc_root, const ProcessEntry& process);
// Why some processes, or what they use, are not in `processes`, a listing sorted by pid; empty when all are.
std::string HiddenProcesses(const std::vector<ProcessEntry>& processes);

}  // namespace smeltr::probe
