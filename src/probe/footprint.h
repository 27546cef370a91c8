// The memory of every process of every recording: ProcFootprint, at the recording's own period.
//
// On Linux phys_footprint_bytes is what its end would free: anonymous and shared memory, swap and page
// tables; file pages, which the system can take back, are in file_bytes. The lifetime maximum is that of the
// resident set, another basis: the two need not be in order. pss_bytes is read rarely, since that holds up
// the process's own memory calls. On macOS both are the kernel's physical footprint.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "probe/gpu_ledger.h"
#include "probe/probe.h"
#include "probe/recorded_trees.h"
#include "probe/roots.h"

namespace smeltr::probe {

inline constexpr uint64_t kDefaultFootprintPeriodNs = 2'000'000'000;

// `default_period_ns` is for recordings that name none.
std::unique_ptr<Probe> MakeFootprintProbe(std::shared_ptr<RecordedTrees> trees,
                                          std::shared_ptr<GpuLedger> ledger, const Roots& roots = {},
                                          uint64_t default_period_ns = kDefaultFootprintPeriodNs);

// The value of SMELTR_FOOTPRINT_PERIOD_MS as ns; the default when it is unset, 0 or no number.
uint64_t FootprintPeriodFromEnvironment();

// What a system tells of one process; footprint.cc does the rest. Not thread-safe.
class FootprintReader {
 public:
  enum class Outcome : uint8_t {
    kRead,
    kGone,     // It has ended, or is ending, which reads as nothing.
    kRefused,  // It lives and does not let us look.
  };
  // What the reader remembers of a process from one reading to the next.
  struct Progress {
    uint64_t readings = 0;
    uint64_t next_pss = 0;  // In `readings`.
    uint64_t bytes_at_pss = 0;
  };
  virtual ~FootprintReader() = default;
  // Fills in sizes; the caller counts `readings`.
  virtual Outcome Read(uint32_t pid, Progress& progress, event::ProcFootprint& sample) = 0;
  virtual Status Check() = 0;
};
std::unique_ptr<FootprintReader> MakeFootprintReader(const Roots& roots);

// When each recording is due. Not thread-safe.
class FootprintSchedule {
 public:
  explicit FootprintSchedule(uint64_t default_period_ns) : default_period_ns_(default_period_ns) {}
  // Those to read now; they count as read.
  std::vector<const Recorded*> TakeDue(const Context& context);
  // The shortest of the periods.
  uint64_t period_ns() const { return period_ns_ == 0 ? default_period_ns_ : period_ns_; }

 private:
  uint64_t default_period_ns_;
  uint64_t period_ns_ = 0;
  std::map<std::string, uint64_t, std::less<>> last_ns_;
};

}  // namespace smeltr::probe
