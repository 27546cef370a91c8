// What the error numbers of GPU drivers mean: whose fault it is, in a few words, and whether the number
// stands for a cause or only for what followed from one.
#pragma once

#include <cstdint>
#include <string_view>

namespace smeltr::crash {

enum class FaultClass : uint8_t {
  kUnknown,
  kApplication,  // The program did something the GPU refuses: a wild address, an illegal instruction.
  kHang,         // Work did not end.
  kReset,        // The driver started the GPU, or an engine of it, anew.
  kMemory,       // Memory of the device failed: ECC, page retirement.
  kHardware,     // Any other part of the device failed.
  kLink,         // PCIe or NVLink.
  kFirmware,     // The device's own software.
};
// "application", "hang" ...; empty for kUnknown.
std::string_view Name(FaultClass fault_class);

struct XidMeaning {
  FaultClass fault_class = FaultClass::kUnknown;
  std::string_view meaning;  // Empty when the number is not known.
  bool consequence = false;  // Something else, reported elsewhere, is the cause.
};

// NVIDIA's Xid numbers, after its Xid catalog and the open kernel module's nverror.h.
XidMeaning DescribeXid(int64_t xid);

}  // namespace smeltr::crash
