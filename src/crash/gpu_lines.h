// The GPU drivers' lines, one at a time. Joining them is kernel_log.h's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "crash/kernel_log.h"
#include "crash/kernel_record.h"

namespace smeltr::crash {

// A record's text without what says which driver and device it is from.
struct DriverLine {
  std::string_view driver;  // "amdgpu", "i915", "xe", "nvidia" ...; empty when there is none.
  std::string pci_address;
  std::string_view message;
};
DriverLine SplitDriverLine(const KernelRecord& record);

struct GpuLine {
  LineKind kind = LineKind::kOther;
  std::optional<GpuFaultLine> fault = std::nullopt;
  bool wants_process = false;  // Another line is to say whose work it was ...
  bool wants_address = false;  // ... and another one which address.
};
GpuLine ReadGpuLine(const KernelRecord& record);

// An AMD line that goes on with what an earlier one began.
struct GpuContinuation {
  std::string pci_address;
  std::string process_name;
  uint32_t pid = 0;
  uint64_t address = 0;
  bool has_process = false;
  bool has_address = false;
};
std::optional<GpuContinuation> ReadGpuContinuation(const KernelRecord& record);

}  // namespace smeltr::crash
