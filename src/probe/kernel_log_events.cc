#include "probe/kernel_log_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/clock.h"
#include "probe/emit.h"

namespace smeltr::probe {
namespace {

constexpr uint64_t kNsPerUs = 1000;
// The kernel's lines are at most 1 KiB; those of the journal may be anything.
constexpr size_t kMaxTextBytes = 2048;

std::string_view Bounded(std::string_view text) { return text.substr(0, kMaxTextBytes); }

uint64_t WallAt(uint64_t ts_ns) {
  const uint64_t now_ns = MonotonicNowNs();
  const uint64_t wall_ns = WallNowNs();
  return ts_ns <= now_ns ? wall_ns - std::min(wall_ns, now_ns - ts_ns) : wall_ns;
}

}  // namespace

void KernelClock::Learn(uint64_t stamp_us, uint64_t earliest_ns, uint64_t now_ns) {
  if (stamp_us > UINT64_MAX / 2 / kNsPerUs) return;
  const auto stamp_ns = static_cast<int64_t>(stamp_us * kNsPerUs);
  // Lines of one burst are stamped before they can be read: the bound is for the latest, and holds for all.
  const int64_t most = static_cast<int64_t>(now_ns) - stamp_ns;
  const int64_t least = static_cast<int64_t>(std::min(earliest_ns, now_ns)) - stamp_ns;
  offset_ns_ = std::clamp(offset_ns_, least, most);
}

uint64_t KernelClock::ToSession(uint64_t stamp_us) const {
  const uint64_t stamp_ns = std::min(stamp_us, UINT64_MAX / 4 / kNsPerUs) * kNsPerUs;
  return static_cast<uint64_t>(std::max<int64_t>(static_cast<int64_t>(stamp_ns) + offset_ns_, 0));
}

uint64_t KernelClock::ToStamp(uint64_t session_ns) const {
  return static_cast<uint64_t>(std::max<int64_t>(static_cast<int64_t>(session_ns) - offset_ns_, 0)) /
         kNsPerUs;
}

bool LineLimiter::Allow(crash::LineKind kind, uint64_t ts_ns, uint64_t& left_out) {
  Window& window = windows_[static_cast<size_t>(kind) % windows_.size()];
  const uint64_t second = ts_ns / kNsPerSecond;
  left_out = 0;
  if (second != window.second) {
    left_out = window.left_out;
    window = {.second = second};
  }
  if (window.passed < kLinesPerSecond) {
    ++window.passed;
    return true;
  }
  ++window.left_out;
  return false;
}

KernelLogEvents::KernelLogEvents(bool pids_are_ours, std::function<uint32_t(uint32_t)> process_of_thread)
    : pids_are_ours_(pids_are_ours), process_of_thread_(std::move(process_of_thread)) {}

void KernelLogEvents::Add(const crash::KernelRecord& record, bool backlog, const KernelClock& clock,
                          Sink& sink) {
  findings_.clear();
  const crash::LineKind kind = log_.Add(record, findings_);
  const bool of_interest =
      kind != crash::LineKind::kOther &&
      (!backlog || (kind != crash::LineKind::kCrash && kind != crash::LineKind::kHardware));
  bool allowed = true;
  if (of_interest) {
    const uint64_t ts_ns = clock.ToSession(record.stamp_us);
    uint64_t left_out = 0;
    allowed = limiter_.Allow(kind, ts_ns, left_out);
    if (left_out > 0) {
      Gap(fmt::format("{} more {} lines in one second were left out", left_out, Name(kind)), ts_ns, sink);
    }
    if (allowed) EmitLine(record, kind, ts_ns, sink);
  }
  for (const crash::Finding& finding : findings_) {
    const bool is_kill = std::holds_alternative<crash::OomKillLine>(finding);
    const bool is_old_crash = backlog && std::holds_alternative<crash::CrashHintLine>(finding);
    if ((allowed || is_kill) && !is_old_crash) EmitFinding(finding, clock, sink);
  }
}

void KernelLogEvents::Flush(uint64_t now_ns, const KernelClock& clock, Sink& sink) {
  if (log_.waiting_since_us() == 0) return;
  findings_.clear();
  log_.Expire(clock.ToStamp(now_ns), findings_);
  for (const crash::Finding& finding : findings_) EmitFinding(finding, clock, sink);
}

void KernelLogEvents::Gap(std::string_view message, uint64_t ts_ns, Sink& sink) {
  event::OsLogLine line;
  line.wall_unix_ns = WallAt(ts_ns);
  line.subsystem = "kernel";
  line.category = "gap";
  line.message = message;
  sink.Emit(MakeEvent(ts_ns, 0, line));
}

void KernelLogEvents::EmitLine(const crash::KernelRecord& record, crash::LineKind kind, uint64_t ts_ns,
                               Sink& sink) {
  event::OsLogLine line;
  line.wall_unix_ns = WallAt(ts_ns);
  line.subsystem = "kernel";
  line.category = Name(kind);
  line.message = Bounded(record.text);
  line.priority = record.priority;
  sink.Emit(MakeEvent(ts_ns, 0, line));
}

void KernelLogEvents::EmitFinding(const crash::Finding& finding, const KernelClock& clock, Sink& sink) {
  const auto pid_of_event = [&](uint32_t pid) { return pids_are_ours_ ? pid : 0; };
  if (const auto* fault = std::get_if<crash::GpuFaultLine>(&finding)) {
    event::GpuFault gpu;
    gpu.code = fault->code;
    gpu.text = Bounded(fault->text);
    gpu.address = fault->address;
    gpu.vendor = std::string_view(fault->vendor);
    gpu.pci_address = std::string_view(fault->pci_address);
    gpu.target_pid = fault->pid;
    gpu.process_name = Bounded(fault->process_name);
    gpu.fault_class = crash::Name(fault->fault_class);
    sink.Emit(MakeEvent(clock.ToSession(fault->stamp_us), pid_of_event(fault->pid), gpu));
  } else if (const auto* kill = std::get_if<crash::OomKillLine>(&finding)) {
    event::OomKill oom;
    oom.killed_pid = kill->pid;
    oom.killed_name = Bounded(kill->process_name);
    oom.anon_rss_bytes = kill->anon_rss_bytes;
    oom.cgroup = Bounded(kill->cgroup);
    oom.constraint = std::string_view(kill->constraint);
    oom.shmem_rss_bytes = kill->shmem_rss_bytes;
    oom.file_rss_bytes = kill->file_rss_bytes;
    oom.total_vm_bytes = kill->total_vm_bytes;
    oom.evidence = "kernel-log";
    sink.Emit(MakeEvent(clock.ToSession(kill->stamp_us), pid_of_event(kill->pid), oom));
  } else if (const auto* crash = std::get_if<crash::CrashHintLine>(&finding)) {
    const uint32_t process =
        pids_are_ours_ && process_of_thread_ && crash->tid != 0 ? process_of_thread_(crash->tid) : 0;
    event::CrashHint hint;
    hint.target_pid = process != 0 ? process : crash->tid;
    hint.process_name = Bounded(crash->thread_name);
    hint.text = Bounded(crash->text);
    hint.address = crash->address;
    sink.Emit(MakeEvent(clock.ToSession(crash->stamp_us), pid_of_event(hint.target_pid), hint));
  }
}

}  // namespace smeltr::probe
