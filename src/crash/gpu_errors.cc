#include "crash/gpu_errors.h"

#include <algorithm>
#include <iterator>

namespace smeltr::crash {
namespace {

struct XidRange {
  int64_t first;
  int64_t last;
  XidMeaning what;
};

constexpr XidMeaning Application(std::string_view meaning) { return {FaultClass::kApplication, meaning}; }
constexpr XidMeaning Hang(std::string_view meaning) { return {FaultClass::kHang, meaning}; }
constexpr XidMeaning Memory(std::string_view meaning) { return {FaultClass::kMemory, meaning}; }
constexpr XidMeaning Hardware(std::string_view meaning) { return {FaultClass::kHardware, meaning}; }
constexpr XidMeaning Link(std::string_view meaning) { return {FaultClass::kLink, meaning}; }
constexpr XidMeaning Firmware(std::string_view meaning) { return {FaultClass::kFirmware, meaning}; }

constexpr std::string_view kCopyEngine = "copy engine error";
constexpr std::string_view kDecoder = "video decoder error";
constexpr std::string_view kEncoder = "video encoder error";
constexpr std::string_view kJpeg = "JPEG engine error";
constexpr std::string_view kNvlink = "NVLink error";
constexpr std::string_view kSpi = "the driver could not reach the device's flash memory";

// Ascending and without overlaps.
constexpr XidRange kXids[] = {
    {8, 8, Hang("the GPU stopped processing")},
    {13, 13, Application("exception in a kernel or shader: illegal instruction or address")},
    {31, 31, Application("access to an address that is not mapped (MMU fault)")},
    {32, 32, Application("invalid or corrupted command stream")},
    {38, 38, Firmware("context switch firmware: watchdog timeout")},
    {39, 41, Hardware(kCopyEngine)},
    {43, 43, Application("the program's channel was reset after a fault of its own")},
    {44, 44, Hardware("fault during a context switch")},
    {45, 45, {FaultClass::kApplication, "work was removed after an earlier error or a kill", true}},
    {46, 46, Hang("the GPU stopped processing")},
    {47, 47, Hardware(kEncoder)},
    {48, 48, Memory("double bit ECC error: data was lost")},
    {54, 54, Hardware("auxiliary power is not connected: the GPU runs slowly")},
    {56, 57, Hardware("display engine or video memory timing error")},
    {58, 58, Memory("video memory error")},
    {59, 59, Firmware("power management unit error")},
    {60, 60, Hardware("security processor error")},
    {61, 61, Firmware("power management unit: breakpoint")},
    {62, 62, Firmware("power management unit halted")},
    {63, 63, Memory("a memory page or row was marked for retirement")},
    {64, 64, Memory("a failing memory page or row could not be retired")},
    {65, 65, Hardware(kEncoder)},
    {68, 68, Hardware(kDecoder)},
    {69, 69, Application("exception in the graphics engine class")},
    {70, 72, Hardware(kCopyEngine)},
    {73, 73, Hardware(kEncoder)},
    {74, 74, Link(kNvlink)},
    {75, 77, Hardware(kCopyEngine)},
    {78, 78, Firmware("virtual GPU could not be started")},
    {79, 79, Link("the GPU has fallen off the bus")},
    {80, 80, Link("data sent to the GPU arrived corrupted")},
    {82, 82, Hardware(kJpeg)},
    {83, 84, Hardware(kDecoder)},
    {85, 85, Hardware(kCopyEngine)},
    {86, 86, Hardware("optical flow engine error")},
    {88, 89, Hardware(kDecoder)},
    {92, 92, Memory("high rate of corrected single bit ECC errors")},
    {93, 93, Firmware("the device's configuration memory is worn out")},
    {94, 94, Memory("uncorrectable ECC error, contained to one program")},
    {95, 95, Memory("uncorrectable ECC error, not contained: every program may be hit")},
    {96, 98, Hardware(kDecoder)},
    {99, 105, Hardware(kJpeg)},
    {108, 108, Link("a remote address over NVLink could not be translated")},
    {109, 109, Hang("context switch timeout: a kernel ran too long or hangs")},
    {110, 110, Hardware("security fault")},
    {119, 119, Firmware("the GPU's system processor (GSP) did not answer in time")},
    {120, 120, Firmware("the GPU's system processor (GSP) failed")},
    {121, 121, Link("chip-to-chip link error")},
    {122, 124, Firmware(kSpi)},
    {125, 125, Firmware("the device's configuration memory is damaged")},
    {126, 135, Hardware(kCopyEngine)},
    {136, 136, Link("NVLink training failed")},
    {137, 137, {FaultClass::kLink, "NVLink refused an access, often after a fault on another GPU", true}},
    {139, 139, Hardware("optical flow engine error")},
    {140, 140, Memory("uncorrectable ECC error that was not handled")},
    {143, 143, Hardware("the GPU could not be initialised")},
    {144, 150, Link(kNvlink)},
    {151, 151, Hardware("encryption key rotation failed")},
    {154, 154, {FaultClass::kReset, "the driver says what recovery the GPU needs", true}},
    {155, 155, Link(kNvlink)},
    {156, 157, Memory("failing memory or channel is to be retired, or could not be")},
    {158, 158, Hang("fatal timeout")},
    {160, 161, Memory("a failing memory channel is to be retired, or could not be")},
    {167, 167, Link("fatal PCIe timeout")},
    {168, 168, Memory("memory was taken out of use")},
    {169, 169, Firmware("security processor halted")},
    {171, 172, Memory("uncorrectable memory error")},
};

static_assert(std::ranges::is_sorted(kXids, {}, &XidRange::first));

}  // namespace

std::string_view Name(FaultClass fault_class) {
  switch (fault_class) {
    case FaultClass::kApplication:
      return "application";
    case FaultClass::kHang:
      return "hang";
    case FaultClass::kReset:
      return "reset";
    case FaultClass::kMemory:
      return "memory";
    case FaultClass::kHardware:
      return "hardware";
    case FaultClass::kLink:
      return "link";
    case FaultClass::kFirmware:
      return "firmware";
    case FaultClass::kUnknown:
      break;
  }
  return {};
}

XidMeaning DescribeXid(int64_t xid) {
  const auto* after = std::ranges::upper_bound(kXids, xid, {}, &XidRange::first);
  if (after == std::begin(kXids)) return {};
  const XidRange& range = *std::prev(after);
  return xid <= range.last ? range.what : XidMeaning{};
}

}  // namespace smeltr::crash
