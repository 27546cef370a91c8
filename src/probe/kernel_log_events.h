// From the kernel's records to events: what is recognised, when it was on the session clock, and how much of
// it is worth passing on. Apart from where the records are read.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string_view>

#include "crash/kernel_log.h"
#include "probe/probe.h"

namespace smeltr::probe {

// The kernel stamps its records with a clock that begins where CLOCK_MONOTONIC does, but is not corrected as
// that is: they part by seconds in weeks. A record was written between the reading that did not see it yet
// and the one that did; that keeps them together.
class KernelClock {
 public:
  // A record seen first by the reading at `now_ns`, the one before having been at `earliest_ns`.
  void Learn(uint64_t stamp_us, uint64_t earliest_ns, uint64_t now_ns);
  uint64_t ToSession(uint64_t stamp_us) const;
  uint64_t ToStamp(uint64_t session_ns) const;

 private:
  int64_t offset_ns_ = 0;
};

// At most so many in a second, each kind by itself, so that a flood of one does not hide another.
class LineLimiter {
 public:
  static constexpr uint32_t kLinesPerSecond = 50;
  // Whether one more, of time `ts_ns`, may pass. `left_out`: how many did not in the second that has ended.
  bool Allow(crash::LineKind kind, uint64_t ts_ns, uint64_t& left_out);

 private:
  struct Window {
    uint64_t second = 0;
    uint32_t passed = 0;
    uint64_t left_out = 0;
  };
  std::array<Window, 6> windows_;
};

class KernelLogEvents {
 public:
  // `process_of_thread`: the process that a thread belongs to, 0 when it is gone. Without it threads stand
  // for processes. `pids_are_ours`: the kernel counts pids as we do, so events can be said to be about one.
  KernelLogEvents(bool pids_are_ours, std::function<uint32_t(uint32_t tid)> process_of_thread);

  // `backlog`: it was there before the first reading, and only GPU and memory matters are of interest.
  void Add(const crash::KernelRecord& record, bool backlog, const KernelClock& clock, Sink& sink);
  // At the end of each reading: what waited in vain for a second line.
  void Flush(uint64_t now_ns, const KernelClock& clock, Sink& sink);
  // Records that could not be read.
  void Gap(std::string_view message, uint64_t ts_ns, Sink& sink);

 private:
  void EmitLine(const crash::KernelRecord& record, crash::LineKind kind, uint64_t ts_ns, Sink& sink);
  void EmitFinding(const crash::Finding& finding, const KernelClock& clock, Sink& sink);

  bool pids_are_ours_;
  std::function<uint32_t(uint32_t)> process_of_thread_;
  crash::KernelLog log_;
  LineLimiter limiter_;
  std::vector<crash::Finding> findings_;
};

}  // namespace smeltr::probe
