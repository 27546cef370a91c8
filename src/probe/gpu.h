// The GPUs as their drivers count them: GpuDeviceSample of each, GpuProcessSample of recorded processes. No
// device, no event.
//
// A driver may hang, above all after a GPU fell off the bus: everything here runs under the supervisor's
// deadline, and nothing is closed at the end.
//
// A sample a second while something is recorded, and one in 30 s otherwise: a driver's library costs more
// memory and time than the rest of an idle daemon (docs/benchmarks.md).
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "event/event.h"
#include "probe/gpu_ledger.h"
#include "probe/probe.h"
#include "probe/recorded_trees.h"
#include "probe/roots.h"

namespace smeltr::probe {

// One device at one time. What the driver does not tell is as the kind says: NaN or 0.
struct GpuReading {
  std::string name;
  std::string pci_address;
  std::string throttle_reasons;   // Comma-separated: faults and limits only.
  event::GpuDeviceSample sample;  // Its texts and its index are empty: they are those here.
  int heat_level = 0;             // See thermal.h.
};

struct GpuUse {
  uint32_t pid = 0;
  uint32_t device = 0;  // In the order of the readings.
  uint64_t used_bytes = 0;
  double busy_pct = 0;
};

// One driver's way of telling. Not thread-safe.
class GpuBackend {
 public:
  virtual ~GpuBackend() = default;
  // Whether it has devices now; else `reason` says why not, in words for the user, or is empty when there is
  // simply nothing of its kind.
  virtual bool Open(std::string& reason) = 0;
  // One reading a device, always in the same order. Fewer than there were: call Open() again.
  virtual std::vector<GpuReading> ReadDevices(uint64_t now_ns) = 0;
  virtual std::vector<GpuUse> ReadUses(uint64_t now_ns, const std::vector<uint32_t>& pids) = 0;
  // Nothing is read for a while: lets go of what is dear to hold. True when it closed, and Open() comes
  // before the next reading.
  virtual bool Rest() { return false; }
};

// NVIDIA's management library, opened at run time.
std::unique_ptr<GpuBackend> MakeNvmlBackend(std::string library = "libnvidia-ml.so.1");
// amdgpu, i915 and xe, through sysfs and the file descriptors of their users.
std::unique_ptr<GpuBackend> MakeDrmBackend(const Roots& roots = {});

std::unique_ptr<Probe> MakeGpuProbe(std::vector<std::unique_ptr<GpuBackend>> backends,
                                    std::shared_ptr<RecordedTrees> trees, std::shared_ptr<GpuLedger> ledger);

}  // namespace smeltr::probe
