// Lines of the kernel's log that tell why a GPU, a process or a machine failed. Some stories take several
// lines: the victim and the limit of an OOM kill, the ring and the process of an AMD hang. They are joined
// when they come within a second of each other; what stays alone is handed out alone.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "crash/gpu_errors.h"
#include "crash/kernel_record.h"

namespace smeltr::crash {

// All pids here are those of the first pid namespace. Strings are empty and numbers 0 when not told.
struct GpuFaultLine {
  uint64_t stamp_us = 0;  // Of its first line.
  int64_t code = 0;       // The Xid, the reset's errno, the hang's error code.
  FaultClass fault_class = FaultClass::kUnknown;
  bool consequence = false;  // The line itself, or the meaning of its code, names another cause.
  std::string vendor;        // nvidia, amd, intel
  std::string text;
  std::string pci_address;  // "0000:3b:00.0"
  std::string process_name;
  uint32_t pid = 0;
  uint64_t address = 0;
};

struct OomKillLine {
  uint64_t stamp_us = 0;
  uint32_t pid = 0;  // The process killed, not the one whose allocation set it off.
  std::string process_name;
  std::string constraint;  // none, memcg, cpuset, memory_policy: whose limit it was.
  std::string cgroup;      // The group whose limit it was, else the victim's.
  uint64_t total_vm_bytes = 0;
  uint64_t anon_rss_bytes = 0;
  uint64_t file_rss_bytes = 0;
  uint64_t shmem_rss_bytes = 0;
  bool has_sizes = false;
};

struct CrashHintLine {
  uint64_t stamp_us = 0;
  uint32_t tid = 0;  // The thread, which the kernel names here, not the process.
  std::string thread_name;
  std::string text;
  uint64_t address = 0;
};

using Finding = std::variant<GpuFaultLine, OomKillLine, CrashHintLine>;

enum class LineKind : uint8_t {
  kOther,  // Of no interest here.
  kXid,
  kGpu,
  kOom,
  kCrash,
  kHardware,  // PCIe, machine check, memory controller.
};
// "xid", "gpu", "oom", "crash", "hardware"; empty for kOther.
std::string_view Name(LineKind kind);

// "PCI:0000:3B:00", "00000000:3B:00.0", "0000:3b:00" -> "0000:3b:00.0"; empty for anything else.
std::string NormalisePciAddress(std::string_view text);

class KernelLog {
 public:
  // Records in their order. Appends what is complete with this one.
  LineKind Add(const KernelRecord& record, std::vector<Finding>& findings);
  // Appends what has waited for a second line for longer than a second.
  void Expire(uint64_t now_us, std::vector<Finding>& findings);
  // The stamp of what waits longest; 0 when nothing does.
  uint64_t waiting_since_us() const;

 private:
  enum class Wants : uint8_t { kProcess, kAddress };
  struct PendingFault {
    GpuFaultLine fault;
    Wants wants = Wants::kProcess;
  };

  LineKind AddOom(const KernelRecord& record, std::vector<Finding>& findings);
  bool Continue(const KernelRecord& record, std::vector<Finding>& findings);
  void Hold(PendingFault pending, std::vector<Finding>& findings);

  std::deque<PendingFault> faults_;
  std::deque<OomKillLine> kills_;  // Constraint and victim known, sizes still to come.
};

}  // namespace smeltr::crash
