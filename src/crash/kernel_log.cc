#include "crash/kernel_log.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "crash/gpu_lines.h"
#include "crash/scan.h"

namespace smeltr::crash {
namespace {

constexpr uint64_t kJoinWindowUs = 1'000'000;
constexpr size_t kMaxWaiting = 32;
constexpr size_t kMaxTextBytes = 1024;

// "anon-rss:50688kB" -> bytes; sets `found`.
uint64_t SizeField(std::string_view text, std::string_view key, bool& found) {
  const auto kib = LeadingNumber<uint64_t>(After(text, key));
  if (!kib.has_value() || *kib > UINT64_MAX / 1024) return 0;
  found = true;
  return *kib * 1024;
}

std::string ConstraintName(std::string_view constraint) {
  Consume(constraint, "CONSTRAINT_");
  if (constraint == "MEMCG") return "memcg";
  if (constraint == "CPUSET") return "cpuset";
  if (constraint == "MEMORY_POLICY") return "memory_policy";
  return constraint == "NONE" ? "none" : std::string();
}

// "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),...,oom_memcg=/a,task_memcg=/a/b,task=C,pid=P,uid=U".
// The name may hold commas and anything else, so what stands after it is found from the end.
std::optional<OomKillLine> ReadConstraint(const KernelRecord& record) {
  std::string_view text = record.text;
  if (!Consume(text, "oom-kill:")) return std::nullopt;
  const size_t pid_at = text.rfind(",pid=");
  if (pid_at == std::string_view::npos) return std::nullopt;
  const auto pid = LeadingNumber<uint32_t>(text.substr(pid_at + 5));
  if (!pid.has_value()) return std::nullopt;
  OomKillLine kill;
  kill.stamp_us = record.stamp_us;
  kill.pid = *pid;
  text = text.substr(0, pid_at);
  kill.constraint = ConstraintName(Before(After(text, "constraint="), ","));
  kill.process_name = After(text, ",task=");
  text = Before(text, ",task=");
  const std::string_view limited = Before(After(text, ",oom_memcg="), ",task_memcg=");
  kill.cgroup = limited.empty() ? After(text, ",task_memcg=") : limited;
  return kill;
}

// "Memory cgroup out of memory: Killed process P (C) total-vm:1kB, anon-rss:1kB, file-rss:1kB, ...", with a
// comma and the user's number after the name in older kernels, and "Killed process" alone in the oldest.
std::optional<OomKillLine> ReadVictim(const KernelRecord& record) {
  const std::string_view text = record.text;
  const size_t at = text.find("Killed process ");
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view cause = text.substr(0, at);
  if (!cause.empty() && !Contains(cause, "ut of memory")) return std::nullopt;
  const std::string_view victim = text.substr(at + std::string_view("Killed process ").size());
  const auto pid = LeadingNumber<uint32_t>(victim);
  const size_t sizes_at = victim.find("total-vm:");
  if (!pid.has_value() || sizes_at == std::string_view::npos) return std::nullopt;
  const std::string_view sizes = victim.substr(sizes_at);
  OomKillLine kill;
  kill.stamp_us = record.stamp_us;
  kill.pid = *pid;
  const size_t open = victim.find('(');
  const size_t close = victim.rfind(')', sizes_at);
  if (open != std::string_view::npos && close != std::string_view::npos && open < close) {
    kill.process_name = victim.substr(open + 1, close - open - 1);
  }
  if (cause.starts_with("Memory cgroup")) kill.constraint = "memcg";
  if (cause.starts_with("Out of memory")) kill.constraint = "none";
  kill.total_vm_bytes = SizeField(sizes, "total-vm:", kill.has_sizes);
  kill.anon_rss_bytes = SizeField(sizes, "anon-rss:", kill.has_sizes);
  kill.file_rss_bytes = SizeField(sizes, "file-rss:", kill.has_sizes);
  kill.shmem_rss_bytes = SizeField(sizes, "shmem-rss:", kill.has_sizes);
  return kill;
}

bool IsOomRemark(std::string_view text) {
  return Contains(text, " invoked oom-killer: ") || text.starts_with("oom_reaper: ") ||
         Contains(text, "are going to be killed due to memory.oom.group set") ||
         ((text.starts_with("Memory cgroup out of memory") || text.starts_with("Out of memory")) &&
          Contains(text, "ill process "));
}

// "C[T]: segfault at A ip I sp S error E in ...", "traps: C[T] general protection fault ip:...", and the ARM
// "C[T]: unhandled exception: ...".
std::optional<CrashHintLine> ReadCrashHint(const KernelRecord& record) {
  std::string_view text = record.text;
  size_t close = std::string_view::npos;
  const bool trap = Consume(text, "traps: ");
  if (trap) {
    close = std::min(text.find("] trap "), text.find("] general protection"));
  } else {
    close = std::min(text.find("]: segfault at "), text.find("]: unhandled "));
    // Where the kernel is told to print every fatal signal.
    const size_t fatal = text.find(": potentially unexpected fatal signal ");
    if (close == std::string_view::npos && fatal != std::string_view::npos && fatal < 32) {
      CrashHintLine hint;
      hint.stamp_us = record.stamp_us;
      hint.thread_name = text.substr(0, fatal);
      hint.text = record.text;
      return hint;
    }
  }
  if (close == std::string_view::npos) return std::nullopt;
  const size_t open = text.rfind('[', close);
  if (open == std::string_view::npos) return std::nullopt;
  const auto tid = WholeNumber<uint32_t>(text.substr(open + 1, close - open - 1));
  if (!tid.has_value()) return std::nullopt;
  CrashHintLine hint;
  hint.stamp_us = record.stamp_us;
  hint.tid = *tid;
  hint.thread_name = text.substr(0, open);
  hint.text = record.text;
  hint.address = LeadingNumber<uint64_t>(After(text, "segfault at "), 16).value_or(0);
  return hint;
}

std::string_view VendorOfDriver(std::string_view driver) {
  if (driver == "nvidia" || driver == "nouveau") return "nvidia";
  if (driver == "amdgpu" || driver == "radeon") return "amd";
  return driver == "i915" || driver == "xe" ? "intel" : std::string_view();
}

// A link error is a GPU's fault only when the GPU itself reports it uncorrected; those of ports and other
// devices, corrected ones, and the processor's own are lines to look at, nothing more.
LineKind ReadHardware(const KernelRecord& record, std::vector<Finding>& findings) {
  const std::string_view text = record.text;
  if (Contains(text, "PCIe Bus Error: severity=")) {
    const DriverLine line = SplitDriverLine(record);
    const std::string_view vendor = VendorOfDriver(line.driver);
    if (!vendor.empty() && Contains(text, "severity=Uncorrect")) {
      GpuFaultLine fault;
      fault.stamp_us = record.stamp_us;
      fault.fault_class = FaultClass::kLink;
      fault.vendor = vendor;
      fault.pci_address = line.pci_address;
      fault.text = text;
      findings.emplace_back(std::move(fault));
    }
    return LineKind::kHardware;
  }
  const bool hardware = Contains(text, "[Hardware Error]: ") || Contains(text, " AER: ") ||
                        (text.starts_with("EDAC ") && (Contains(text, " CE ") || Contains(text, " UE ") ||
                                                       Contains(text, "HANDLING MCE"))) ||
                        text.starts_with("Memory failure: ");
  return hardware ? LineKind::kHardware : LineKind::kOther;
}

}  // namespace

std::string_view Name(LineKind kind) {
  switch (kind) {
    case LineKind::kXid:
      return "xid";
    case LineKind::kGpu:
      return "gpu";
    case LineKind::kOom:
      return "oom";
    case LineKind::kCrash:
      return "crash";
    case LineKind::kHardware:
      return "hardware";
    case LineKind::kOther:
      break;
  }
  return {};
}

LineKind KernelLog::Add(const KernelRecord& record, std::vector<Finding>& findings) {
  Expire(record.stamp_us, findings);
  if (Continue(record, findings)) return LineKind::kGpu;
  GpuLine gpu = ReadGpuLine(record);
  if (gpu.fault.has_value()) {
    if (gpu.wants_process || gpu.wants_address) {
      const Wants last = gpu.wants_address ? Wants::kAddress : Wants::kProcess;
      Hold({.fault = std::move(*gpu.fault), .wants = last}, findings);
    } else {
      findings.emplace_back(std::move(*gpu.fault));
    }
  }
  if (gpu.kind != LineKind::kOther) return gpu.kind;
  if (const LineKind kind = AddOom(record, findings); kind != LineKind::kOther) return kind;
  if (auto hint = ReadCrashHint(record)) {
    findings.emplace_back(std::move(*hint));
    return LineKind::kCrash;
  }
  return ReadHardware(record, findings);
}

LineKind KernelLog::AddOom(const KernelRecord& record, std::vector<Finding>& findings) {
  if (auto kill = ReadConstraint(record)) {
    if (kills_.size() == kMaxWaiting) {
      findings.emplace_back(std::move(kills_.front()));
      kills_.pop_front();
    }
    kills_.push_back(std::move(*kill));
    return LineKind::kOom;
  }
  if (auto victim = ReadVictim(record)) {
    const auto match =
        std::ranges::find_if(kills_, [&](const OomKillLine& kill) { return kill.pid == victim->pid; });
    if (match != kills_.end()) {
      victim->stamp_us = match->stamp_us;
      victim->constraint = std::move(match->constraint);
      victim->cgroup = std::move(match->cgroup);
      kills_.erase(match);
    }
    findings.emplace_back(std::move(*victim));
    return LineKind::kOom;
  }
  return IsOomRemark(record.text) ? LineKind::kOom : LineKind::kOther;
}

bool KernelLog::Continue(const KernelRecord& record, std::vector<Finding>& findings) {
  const auto more = ReadGpuContinuation(record);
  if (!more.has_value()) return false;
  // The newest of the device: drivers write the lines of one story in a row.
  const auto match = std::find_if(faults_.rbegin(), faults_.rend(), [&](const PendingFault& pending) {
    return pending.fault.pci_address == more->pci_address;
  });
  if (match == faults_.rend()) return true;
  GpuFaultLine& fault = match->fault;
  if (more->has_process) {
    fault.process_name = more->process_name;
    fault.pid = more->pid;
  }
  if (more->has_address) fault.address = more->address;
  if (fault.text.size() < kMaxTextBytes) {
    fault.text += "; ";
    fault.text += SplitDriverLine(record).message;
  }
  if (more->has_address || match->wants == Wants::kProcess) {
    findings.emplace_back(std::move(fault));
    faults_.erase(std::next(match).base());
  }
  return true;
}

void KernelLog::Hold(PendingFault pending, std::vector<Finding>& findings) {
  // Its predecessor on the device will get no more lines.
  const auto same_device = [&](PendingFault& earlier) {
    if (earlier.fault.pci_address != pending.fault.pci_address) return false;
    findings.emplace_back(std::move(earlier.fault));
    return true;
  };
  std::erase_if(faults_, same_device);
  if (faults_.size() == kMaxWaiting) {
    findings.emplace_back(std::move(faults_.front().fault));
    faults_.pop_front();
  }
  faults_.push_back(std::move(pending));
}

void KernelLog::Expire(uint64_t now_us, std::vector<Finding>& findings) {
  const auto is_late = [&](uint64_t stamp_us) { return stamp_us + kJoinWindowUs < now_us; };
  while (!faults_.empty() && is_late(faults_.front().fault.stamp_us)) {
    findings.emplace_back(std::move(faults_.front().fault));
    faults_.pop_front();
  }
  while (!kills_.empty() && is_late(kills_.front().stamp_us)) {
    findings.emplace_back(std::move(kills_.front()));
    kills_.pop_front();
  }
}

uint64_t KernelLog::waiting_since_us() const {
  uint64_t since_us = faults_.empty() ? 0 : faults_.front().fault.stamp_us;
  if (!kills_.empty() && (since_us == 0 || kills_.front().stamp_us < since_us)) {
    since_us = kills_.front().stamp_us;
  }
  return since_us;
}

}  // namespace smeltr::crash
