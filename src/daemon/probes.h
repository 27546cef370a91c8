// Runs the probes: each on a thread of its own, so that one that hangs or fails never hurts the rest or
// the daemon's loop. Events come out of Take() on the loop's thread.
//
// Health: starting -> ok after the first good reading; degraded and back as the probe says; failed when it
// throws, says so or misses its deadline. A failed one is tried again with doubling pauses (0.5 s to 10 min),
// reset after 60 s of health. A hung reading keeps its thread and is reported; nothing else is started for
// it until it returns. Each probe's own cost is measured (thread CPU time); one above 1 % of a core is run
// less often, and says so as degraded. ProbeHealth events are made on change only.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "event/event.h"
#include "probe/probe.h"

namespace smeltr::daemon {

struct ProbeState {
  std::string name;
  probe::Health health = probe::Health::kStarting;
  std::string reason;
  uint64_t readings = 0;
  double cost_pct = 0;  // Of one core, over the last minute or since the start.
};

class Probes {
 public:
  // `wake` is called from probe threads when Take() has something.
  Probes(std::vector<std::unique_ptr<probe::Probe>> probes, std::function<void()> wake);
  // Waits for readings under way, but for no longer than a second: a thread that hangs is left behind.
  ~Probes();

  void Start();
  // What is recorded has changed.
  void SetRecordings(std::vector<probe::Recorded> recordings);

  // `session_id` empty: about the machine. Texts and lists are valid during the call.
  using Sink = std::function<void(std::string_view session_id, const event::Event& event)>;
  // Hands over what the probes emitted since the last call. Bounded: what the loop did not take in time is
  // dropped, oldest first, and counted.
  void Take(const Sink& sink);
  uint64_t dropped_count() const;

  // Notices hung readings and due restarts. Call every second or so.
  void Poll(uint64_t now_ns);

  std::vector<ProbeState> states() const;

 private:
  struct Shared;
  std::shared_ptr<Shared> shared_;  // Outlives this object while a thread hangs.
};

}  // namespace smeltr::daemon
