#include "crash/gpu_lines.h"

#include <algorithm>
#include <utility>

#include "crash/scan.h"

namespace smeltr::crash {
namespace {

constexpr std::string_view kPciPrefix = "+pci:";

bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

GpuFaultLine MakeFault(const KernelRecord& record, std::string_view vendor, FaultClass fault_class) {
  GpuFaultLine fault;
  fault.stamp_us = record.stamp_us;
  fault.vendor = vendor;
  fault.fault_class = fault_class;
  fault.text = record.text;
  return fault;
}

GpuLine Complete(LineKind kind, GpuFaultLine fault) { return {.kind = kind, .fault = std::move(fault)}; }

GpuLine NoFault() { return {.kind = LineKind::kGpu}; }

// "pid=1234", "pid='<unknown>'"; 0 for the latter.
uint32_t PidField(std::string_view text) { return LeadingNumber<uint32_t>(After(text, "pid=")).value_or(0); }

// "0x7f36_3a000000" -> number.
uint64_t GroupedHex(std::string_view text) {
  Consume(text, "0x");
  uint64_t value = 0;
  for (const char c : text) {
    if (c == '_') continue;
    if (!IsHexDigit(c) || value >> 60 != 0) break;
    value = value * 16 + WholeNumber<uint64_t>(std::string_view(&c, 1), 16).value_or(0);
  }
  return value;
}

// "(PCI:0000:3b:00): 31, pid=1234, name=python, Ch 00000008" after "Xid ". SXid, the switches' own numbers,
// have the same shape.
GpuLine ReadXid(const KernelRecord& record, std::string_view rest, bool from_switch) {
  GpuFaultLine fault = MakeFault(record, "nvidia", FaultClass::kLink);
  const size_t close = rest.find("): ");
  if (!rest.starts_with('(') || close == std::string_view::npos) return NoFault();
  // A MIG instance may follow the address: "PCI:0000:c1:00 GPU-I:05".
  fault.pci_address = NormalisePciAddress(Before(rest.substr(1, close - 1), " "));
  rest.remove_prefix(close + 3);
  const bool hexadecimal = rest.starts_with("0x");
  const auto code = LeadingNumber<int64_t>(hexadecimal ? rest.substr(2) : rest, hexadecimal ? 16 : 10);
  if (!code.has_value()) return NoFault();
  fault.code = *code;
  if (!from_switch) {
    const XidMeaning meaning = DescribeXid(*code);
    fault.fault_class = meaning.fault_class;
    fault.consequence = meaning.consequence || Contains(rest, "caused by previous Xid");
  }
  const std::string_view fields = After(rest, ",");
  if (fields.starts_with(" pid=")) {
    fault.pid = PidField(fields);
    std::string_view after_pid = After(fields, ", ");
    if (Consume(after_pid, "name=") && !after_pid.starts_with("<unknown>")) {
      fault.process_name = Trim(Before(after_pid, ", "));
    }
  }
  if (Contains(rest, "faulted @ ")) fault.address = GroupedHex(After(rest, "faulted @ "));
  return Complete(LineKind::kXid, std::move(fault));
}

GpuLine ReadNvidia(const KernelRecord& record) {
  std::string_view text = record.text;
  if (Consume(text, "NVRM: Xid ")) return ReadXid(record, text, false);
  if (text.starts_with("nvidia-nvswitch") && Contains(text, "SXid ")) {
    return ReadXid(record, After(text, "SXid "), true);
  }
  if (!Consume(text, "NVRM: ")) return {};
  // "GPU 0000:09:00.0: GPU has fallen off the bus.", in newer drivers without an Xid line.
  if (!Contains(text, "fallen off the bus")) return {};
  GpuFaultLine fault = MakeFault(record, "nvidia", FaultClass::kLink);
  fault.code = 79;
  if (Consume(text, "GPU ")) fault.pci_address = NormalisePciAddress(Before(text, ": "));
  return Complete(LineKind::kXid, std::move(fault));
}

// "... with ret = -110", "Failed: -110"
int64_t TrailingErrno(std::string_view message) {
  for (const std::string_view marker : {"ret = ", "Failed: ", "failed: "}) {
    const auto number = LeadingNumber<int64_t>(After(message, marker));
    if (number.has_value()) return *number;
  }
  return 0;
}

// "process C pid P thread T pid Q", where C may hold spaces.
bool ReadAmdProcess(std::string_view text, std::string& name, uint32_t& pid) {
  text = Before(text, " thread ");
  const size_t at = text.rfind(" pid ");
  if (at == std::string_view::npos) return false;
  const auto number = LeadingNumber<uint32_t>(text.substr(at + 5));
  if (!number.has_value()) return false;
  pid = *number;
  name = Trim(text.substr(0, at));
  return true;
}

bool IsAmdReset(std::string_view message) {
  return message.starts_with("GPU reset") || message.starts_with("GPU Recovery Failed") ||
         (message.starts_with("Ring ") &&
          (Contains(message, " reset succeeded") || Contains(message, " reset failed"))) ||
         message.starts_with("device wedged");
}

bool IsAmdHint(std::string_view message) {
  return Contains(message, "device coredump") || Contains(message, "devcoredump") ||
         message.starts_with("Dumping IP State") || message.starts_with("VRAM is lost") ||
         (message.starts_with("Starting ") && message.ends_with(" ring reset"));
}

GpuLine ReadAmd(const KernelRecord& record, const DriverLine& line) {
  const std::string_view message = line.message;
  const auto make = [&](FaultClass fault_class) {
    GpuFaultLine fault = MakeFault(record, "amd", fault_class);
    fault.pci_address = line.pci_address;
    return fault;
  };
  if (message.starts_with("ring ") && Contains(message, " timeout, ")) {
    GpuLine result = Complete(LineKind::kGpu, make(FaultClass::kHang));
    result.wants_process = !Contains(message, "soft recovered");
    return result;
  }
  if (Contains(message, "page fault (src_id:")) {
    GpuLine result = Complete(LineKind::kGpu, make(FaultClass::kApplication));
    if (const std::string_view process = After(message, "for process "); !process.empty()) {
      ReadAmdProcess(process, result.fault->process_name, result.fault->pid);
    }
    result.wants_process = result.fault->process_name.empty();
    result.wants_address = true;
    return result;
  }
  if (message.starts_with("GPU fault detected")) {
    return Complete(LineKind::kGpu, make(FaultClass::kApplication));
  }
  if (IsAmdReset(message)) {
    GpuFaultLine fault = make(FaultClass::kReset);
    fault.consequence = true;
    fault.code = TrailingErrno(message);
    return Complete(LineKind::kGpu, std::move(fault));
  }
  if (Contains(message, "uncorrectable hardware errors detected")) {
    return Complete(LineKind::kGpu, make(FaultClass::kMemory));
  }
  if (Contains(message, "device lost from bus")) return Complete(LineKind::kGpu, make(FaultClass::kLink));
  return IsAmdHint(message) ? NoFault() : GpuLine{};
}

// "in C [P]", at the end or before a comma; "no process [-1]" names nobody.
void ReadIntelProcess(std::string_view message, GpuFaultLine& fault) {
  const size_t at = message.rfind(" in ");
  const size_t close = message.rfind(']');
  if (at == std::string_view::npos || close == std::string_view::npos || close < at) return;
  const std::string_view process = message.substr(at + 4, close - at - 4);
  const size_t open = process.rfind(" [");
  if (open == std::string_view::npos) return;
  const auto pid = WholeNumber<uint32_t>(process.substr(open + 2));
  if (!pid.has_value()) return;
  fault.pid = *pid;
  fault.process_name = process.substr(0, open);
}

GpuLine ReadI915(const KernelRecord& record, const DriverLine& line) {
  const std::string_view message = line.message;
  if (message.starts_with("GPU HANG: ")) {
    GpuFaultLine fault = MakeFault(record, "intel", FaultClass::kHang);
    fault.pci_address = line.pci_address;
    // "ecode generation:engines:hash"
    std::string_view hash = After(After(After(message, "ecode "), ":"), ":");
    Consume(hash, "0x");
    fault.code = LeadingNumber<int64_t>(hash, 16).value_or(0);
    ReadIntelProcess(message, fault);
    return Complete(LineKind::kGpu, std::move(fault));
  }
  if (message.starts_with("Resetting ") &&
      (Contains(message, " for ") || Contains(message, "after gpu hang"))) {
    GpuFaultLine fault = MakeFault(record, "intel", FaultClass::kReset);
    fault.pci_address = line.pci_address;
    fault.consequence = true;
    return Complete(LineKind::kGpu, std::move(fault));
  }
  return Contains(message, "GPU crash dump saved") || Contains(message, "GPU error state saved") ? NoFault()
                                                                                                 : GpuLine{};
}

GpuLine ReadXe(const KernelRecord& record, const DriverLine& line) {
  // "Tile0: GT0: " says which part of the device.
  std::string_view message = line.message;
  for (const std::string_view part : {"Tile", "GT"}) {
    if (message.starts_with(part) && message.find(": ") < 8) message = After(message, ": ");
  }
  const auto make = [&](FaultClass fault_class) {
    GpuFaultLine fault = MakeFault(record, "intel", fault_class);
    fault.pci_address = line.pci_address;
    return fault;
  };
  if (message.starts_with("Timedout job: ")) {
    GpuFaultLine fault = make(FaultClass::kHang);
    ReadIntelProcess(message, fault);
    return Complete(LineKind::kGpu, std::move(fault));
  }
  if (message.starts_with("Engine reset: ")) {
    GpuFaultLine fault = make(FaultClass::kReset);
    fault.consequence = true;
    return Complete(LineKind::kGpu, std::move(fault));
  }
  // An access to what is not mapped: "catastrophic".
  if (message.starts_with("Engine memory CAT error") || message.starts_with("Engine memory cat error")) {
    return Complete(LineKind::kGpu, make(FaultClass::kApplication));
  }
  if (Contains(message, "wedged")) return Complete(LineKind::kGpu, make(FaultClass::kHang));
  return Contains(message, "device coredump") || Contains(message, "devcoredump") ? NoFault() : GpuLine{};
}

// "+pci:0000:08:00.0"
std::string DeviceOf(const KernelRecord& record) {
  std::string_view device = record.device;
  return Consume(device, kPciPrefix) ? NormalisePciAddress(device) : std::string();
}

}  // namespace

std::string NormalisePciAddress(std::string_view text) {
  Consume(text, "PCI:");
  const size_t first = text.find(':');
  const size_t second = first == std::string_view::npos ? first : text.find(':', first + 1);
  if (second == std::string_view::npos) return {};
  const size_t dot = text.find('.', second);
  const auto domain = WholeNumber<uint32_t>(text.substr(0, first), 16);
  const std::string_view bus = text.substr(first + 1, second - first - 1);
  const std::string_view device =
      text.substr(second + 1, dot == std::string_view::npos ? dot : dot - second - 1);
  const std::string_view function = dot == std::string_view::npos ? "0" : text.substr(dot + 1);
  const auto is_hex = [](std::string_view digits, size_t count) {
    return digits.size() == count && std::ranges::all_of(digits, IsHexDigit);
  };
  if (!domain.has_value() || !is_hex(bus, 2) || !is_hex(device, 2) || !is_hex(function, 1)) return {};
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string address;
  for (uint32_t value = *domain; value != 0; value /= 16) address.insert(0, 1, kDigits[value % 16]);
  if (address.size() < 4) address.insert(0, 4 - address.size(), '0');
  for (const std::string_view part :
       {std::string_view(":"), bus, std::string_view(":"), device, std::string_view("."), function}) {
    address += part;
  }
  std::ranges::transform(address, address.begin(),
                         [](char c) { return c >= 'A' && c <= 'F' ? static_cast<char>(c - 'A' + 'a') : c; });
  return address;
}

DriverLine SplitDriverLine(const KernelRecord& record) {
  DriverLine line;
  std::string_view text = record.text;
  // "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ..."
  if (text.starts_with("[drm:")) {
    const std::string_view module = Before(After(text, " ["), "]]");
    if (const std::string_view message = After(text, "]] "); !message.empty() && module.size() < 32) {
      line.driver = module;
      text = message;
    }
  } else if (const size_t space = text.find(' '); space != std::string_view::npos && space < 32) {
    // "amdgpu 0000:08:00.0: ..."
    const size_t end = text.find(": ", space);
    std::string address = end == std::string_view::npos
                              ? std::string()
                              : NormalisePciAddress(text.substr(space + 1, end - space - 1));
    if (!address.empty()) {
      line.driver = text.substr(0, space);
      line.pci_address = std::move(address);
      text.remove_prefix(end + 2);
    }
  }
  // What drivers put before their messages, in any order, by version.
  bool more = true;
  while (more) {
    text = Trim(text);
    more = false;
    for (const std::string_view prefix : {"amdgpu: ", "[drm] ", "*ERROR* ", "CRITICAL: ", "drm/i915: "}) {
      if (Consume(text, prefix)) more = true;
    }
  }
  line.message = text;
  if (line.pci_address.empty()) line.pci_address = DeviceOf(record);
  return line;
}

GpuLine ReadGpuLine(const KernelRecord& record) {
  const std::string_view text = record.text;
  if (text.starts_with("NVRM: ") || text.starts_with("nvidia-nvswitch")) return ReadNvidia(record);
  const DriverLine line = SplitDriverLine(record);
  if (line.driver == "amdgpu" || text.starts_with("amdgpu: ")) return ReadAmd(record, line);
  if (line.driver == "xe") return ReadXe(record, line);
  // Older i915 wrote without driver and device.
  if (line.driver == "i915" || text.starts_with("[drm] GPU HANG") || text.starts_with("drm/i915: ")) {
    return ReadI915(record, line);
  }
  return {};
}

std::optional<GpuContinuation> ReadGpuContinuation(const KernelRecord& record) {
  const DriverLine line = SplitDriverLine(record);
  if (line.driver != "amdgpu" && !record.text.starts_with("amdgpu: ")) return std::nullopt;
  GpuContinuation result;
  std::string_view message = line.message;
  if (Consume(message, "in page starting at address ")) {
    result.has_address = true;
    result.address = GroupedHex(message);
  } else if (Consume(message, "Process information: process ") || Consume(message, "Process ") ||
             Consume(message, "for process ") || Consume(message, "in process ")) {
    result.has_process = ReadAmdProcess(message, result.process_name, result.pid);
  }
  if (!result.has_address && !result.has_process) return std::nullopt;
  result.pci_address = line.pci_address;
  return result;
}

}  // namespace smeltr::crash
