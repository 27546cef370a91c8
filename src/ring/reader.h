// The reading side: the one consumer of a ring. Trusts nothing it reads: a hostile or damaged ring costs
// events, counted, never a crash, an endless loop or memory.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "event/event.h"
#include "ring/segment.h"

namespace smeltr::ring {

struct DrainResult {
  uint64_t event_count = 0;
  uint64_t corrupt_frames = 0;  // Frames or block tails that could not be decoded and were skipped.
  bool more = false;            // The limit ended the drain, not the ring.
};

struct DroppedCount {
  event::Kind kind;
  uint64_t count;  // Since the last call.
};

class Reader {
 public:
  explicit Reader(Segment segment);
  ~Reader();
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;

  // Calls `sink` for up to `max_events` committed events, oldest block first, pid and tid filled in;
  // the event's texts and lists are valid during the call only. What was passed is consumed, also for a
  // later reader of the same ring.
  DrainResult Drain(uint64_t max_events, const std::function<void(const event::Event&)>& sink);

  // Drops since the last call, by kind, those of an earlier reader not repeated.
  std::vector<DroppedCount> TakeDropped();

  ProcessIdentity process() const;
  bool closed() const;  // The writer said goodbye.
  bool empty() const;   // Nothing committed is left to drain.
  // Whether the process that made the ring may still write: it runs, or its lock says that it does somewhere.
  bool owner_alive() const;
  // Whether its lock says that the program which made it still runs; false also where there are no locks.
  bool life_locked() const;
  // When it was made, as its process says. Session clock.
  uint64_t created_ns() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smeltr::ring
