#include "probe/crash_files_probe.h"
#include "probe/footprint.h"
#include "probe/gpu_macos.h"
#include "probe/kernel_log_probe.h"
#include "probe/proc.h"
#include "probe/thermal.h"
#include "probe/vm.h"

namespace smeltr::probe {

std::vector<std::unique_ptr<Probe>> MakeAllProbes() {
  const auto trees = std::make_shared<RecordedTrees>();
  const auto ledger = std::make_shared<GpuLedger>();
  std::vector<std::unique_ptr<Probe>> probes;
  probes.push_back(MakeVmProbe());
  probes.push_back(MakeProcProbe());
  probes.push_back(MakeFootprintProbe(trees, ledger, {}, FootprintPeriodFromEnvironment()));
  probes.push_back(MakeThermalProbe(ledger));
  probes.push_back(MakeIoReportProbe());
  probes.push_back(MakeKernelLogProbe());
  probes.push_back(MakeCrashFilesProbe());
  return probes;
}

}  // namespace smeltr::probe
