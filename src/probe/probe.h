// What every probe is: a named reading of the system, repeated. A probe only reads and emits; when it
// runs, what happens when it fails or hangs, and where its events go is daemon/probes.h.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "event/event.h"

namespace smeltr::probe {

enum class Health : uint8_t {
  kStarting,  // No reading yet.
  kOk,
  kDegraded,  // Readings come, but something is missing: the reason says what and how to get it.
  kAbsent,    // There is nothing of the kind on this machine: no fault. Looked for again now and then.
  kFailed,    // No readings: broken, or not allowed. Tried again now and then.
};
// "starting", "ok", "degraded", "absent", "failed".
std::string_view Name(Health health);

struct Status {
  Health health = Health::kOk;
  std::string reason;  // Empty for kOk; else one line that says what to do, where something can be done.
};

// A recording under way: whose processes are looked at closely.
struct Recorded {
  std::string session_id;
  std::string token;  // SMELTR_SCOPE_TOKEN in the environment of its processes.
  uint32_t root_pid = 0;
  uint64_t root_start_time_ticks = 0;
  uint64_t footprint_period_ns = 0;  // 0: the default.
};

// Takes events during Sample(), which may reuse their texts and lists as soon as the call returns. The
// envelope's ts_ns is that of the reading, pid the process it is about (0: the whole machine).
class Sink {
 public:
  virtual ~Sink() = default;
  // About the machine: to the ambient session, and to recordings where the kind is wanted there.
  virtual void Emit(const event::Event& event) = 0;
  // About one recording's process.
  virtual void EmitTo(std::string_view session_id, const event::Event& event) = 0;
};

// What a reading is made for.
struct Context {
  uint64_t now_ns = 0;
  std::vector<Recorded> recordings;
};

class Probe {
 public:
  virtual ~Probe() = default;
  virtual std::string_view name() const = 0;
  // Between the starts of two readings; missed ones are skipped, not made up for.
  virtual uint64_t period_ns() const = 0;
  // How long a reading may take before it counts as hung.
  virtual uint64_t deadline_ns() const { return 2'000'000'000; }
  // False: not worth a reading now (nothing is recorded, say). Cheap.
  virtual bool Wanted(const Context& /*context*/) const { return true; }
  // One reading. Called on one thread at a time, which the probe may block. May throw: it is contained.
  virtual Status Sample(const Context& context, Sink& sink) = 0;
  // For `smeltr doctor`: whether it could read, without side effects. The default makes one reading and
  // throws its events away.
  virtual Status Check();
};

// Every probe of this system, in the order that status and doctor show them. The one visible list is in
// all_linux.cc and all_macos.cc.
std::vector<std::unique_ptr<Probe>> MakeAllProbes();

}  // namespace smeltr::probe
