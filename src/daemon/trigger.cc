#include "daemon/trigger.h"

#include <fmt/format.h>
#include <signal.h>

#include "base/clock.h"
#include "util/format.h"

namespace smeltr::daemon {
namespace {

constexpr std::array<std::string_view, 9> kClassNames = {"gpu-error", "gpu-hang",        "out-of-memory",
                                                         "crash",     "memory-kill",     "gpu-fault",
                                                         "panic",     "memory-pressure", "request"};

constexpr uint64_t kHangNs = 5 * kNsPerSecond;
constexpr size_t kMaxTextCharacters = 200;

// Texts come from recorded programs and kernel lines.
std::string Shown(event::Text text) { return Printable(Truncate(text.view, kMaxTextCharacters)); }

bool IsCrashSignal(uint32_t signal) {
  constexpr std::array kCrashSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
  return std::ranges::find(kCrashSignals, static_cast<int>(signal)) != kCrashSignals.end();
}

// VkResult and CUresult/cudaError_t values after which the device or context is of no more use.
bool IsDeviceLost(event::Api api, int64_t code) {
  if (api == event::Api::kVulkan) return code == -4;
  if (api == event::Api::kCuda) {
    return code == 214 || code == 220 || code == 700 || code == 702 || code == 710 ||
           (code >= 714 && code <= 719);
  }
  return false;
}

// Host memory included: a driver that cannot get it fails the same way.
bool IsOutOfMemory(event::Api api, int64_t code) {
  if (api == event::Api::kVulkan) return code == -1 || code == -2;
  return api == event::Api::kCuda && code == 2;
}

std::string Who(uint32_t pid, event::Text name) {
  return name.empty() ? fmt::format("process {}", pid) : fmt::format("{} ({})", Shown(name), pid);
}

using Found = std::optional<Trigger>;

Found From(const event::Envelope&, const event::CbCompleted& fields) {
  if (fields.status != event::CbStatus::kError || fields.error_code == 0) return std::nullopt;
  return Trigger{.trigger_class = TriggerClass::kGpuError,
                 .text = fmt::format("command buffer {} failed: {}{}error {}", event::Raw(fields.cb_id),
                                     Shown(fields.error_domain), fields.error_domain.empty() ? "" : " ",
                                     fields.error_code)};
}

Found From(const event::Envelope&, const event::CbWarning& fields) {
  if (fields.elapsed_ns < kHangNs) return std::nullopt;
  return Trigger{.trigger_class = TriggerClass::kGpuHang,
                 .text = fmt::format("command buffer {} has not ended after {}", event::Raw(fields.cb_id),
                                     FormatDuration(fields.elapsed_ns))};
}

Found From(const event::Envelope& envelope, const event::ApiError& fields) {
  const bool lost = IsDeviceLost(envelope.api, fields.error_code);
  if (!lost && !IsOutOfMemory(envelope.api, fields.error_code)) return std::nullopt;
  return Trigger{.trigger_class = lost ? TriggerClass::kGpuError : TriggerClass::kOutOfMemory,
                 .text = fmt::format("{} in {}", Shown(fields.error_name), Shown(fields.call))};
}

Found From(const event::Envelope&, const event::SignalCaught& fields) {
  if (!IsCrashSignal(fields.signal)) return std::nullopt;
  return Trigger{.trigger_class = TriggerClass::kCrash,
                 .text = fmt::format("a recorded process got {} at {:#x}",
                                     SignalName(static_cast<int>(fields.signal)), fields.address)};
}

Found From(const event::Envelope& envelope, const event::ProcessExit& fields) {
  const bool killed = fields.term_signal == SIGKILL;
  if (!killed && !IsCrashSignal(fields.term_signal)) return std::nullopt;
  return Trigger{.trigger_class = killed ? TriggerClass::kMemoryKill : TriggerClass::kCrash,
                 .scope = TriggerScope::kMember,
                 .pid = envelope.pid,
                 .text = fmt::format("process {} ended by {}{}", envelope.pid,
                                     SignalName(static_cast<int>(fields.term_signal)),
                                     killed ? " while memory was short" : ""),
                 .needs_memory_evidence = killed};
}

Found From(const event::Envelope&, const event::OomKill& fields) {
  return Trigger{
      .trigger_class = TriggerClass::kMemoryKill,
      .scope = TriggerScope::kMember,
      .pid = fields.killed_pid,
      .text = fmt::format("the system killed {} for memory ({})", Who(fields.killed_pid, fields.killed_name),
                          FormatBytes(fields.anon_rss_bytes))};
}

Found From(const event::Envelope&, const event::JetsamKill& fields) {
  if (fields.killed_pid == 0) return std::nullopt;
  return Trigger{.trigger_class = TriggerClass::kMemoryKill,
                 .scope = TriggerScope::kMember,
                 .pid = fields.killed_pid,
                 .text = fmt::format("the system killed {} for memory ({}, {})",
                                     Who(fields.killed_pid, fields.killed_name),
                                     FormatBytes(fields.footprint_bytes), Shown(fields.reason))};
}

Found From(const event::Envelope&, const event::GpuFault& fields) {
  const bool named = fields.target_pid != 0;
  return Trigger{.trigger_class = TriggerClass::kGpuFault,
                 .scope = named ? TriggerScope::kMember : TriggerScope::kDevice,
                 .pid = fields.target_pid,
                 .text = fmt::format("GPU fault {}: {}", fields.code, Shown(fields.text))};
}

Found From(const event::Envelope&, const event::MachException& fields) {
  return Trigger{.trigger_class = TriggerClass::kCrash,
                 .scope = TriggerScope::kMember,
                 .pid = fields.target_pid,
                 .text = fmt::format("exception {} in process {}", fields.exception_type, fields.target_pid)};
}

Found From(const event::Envelope&, const event::CrashReportEmitted& fields) {
  if (fields.crashed_pid == 0) return std::nullopt;
  return Trigger{.trigger_class = TriggerClass::kCrash,
                 .scope = TriggerScope::kMember,
                 .pid = fields.crashed_pid,
                 .text = fmt::format("crash report of {}: {}", Who(fields.crashed_pid, fields.process_name),
                                     Shown(fields.summary))};
}

// The kernel's line about a crash, or a recorded process that was suddenly gone.
Found From(const event::Envelope&, const event::CrashHint& fields) {
  if (fields.target_pid == 0) return std::nullopt;
  return Trigger{.trigger_class = TriggerClass::kCrash,
                 .scope = TriggerScope::kMember,
                 .pid = fields.target_pid,
                 .text = Shown(fields.text)};
}

Found From(const event::Envelope&, const event::MlxPanicTriggered& fields) {
  return Trigger{.trigger_class = TriggerClass::kPanic,
                 .text = fmt::format("the program gave up: {}", Shown(fields.condition))};
}

Found From(const event::Envelope&, const event::VmSample& fields) {
  if (fields.pressure.view != "critical") return std::nullopt;
  return Trigger{.trigger_class = TriggerClass::kMemoryPressure,
                 .scope = TriggerScope::kMachine,
                 .text = "memory pressure of the machine is critical"};
}

template <typename E>
Found From(const event::Envelope&, const E&) {
  return std::nullopt;
}

}  // namespace

std::string_view Name(TriggerClass trigger_class) {
  const auto index = static_cast<size_t>(trigger_class);
  return index < kClassNames.size() ? kClassNames[index] : "unknown";
}

std::optional<Trigger> FindTrigger(const event::Event& event) {
  if (!MayTrigger(event.payload)) return std::nullopt;
  Found found = std::visit([&](const auto& fields) { return From(event.envelope, fields); }, event.payload);
  if (found) found->ts_ns = event.envelope.ts_ns;
  return found;
}

}  // namespace smeltr::daemon
