// The writing side: any thread of the traced process appends events.
// Never blocks, never allocates, never enters the kernel (guarantees in layout.h).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/clock.h"
#include "event/frame.h"
#include "ring/layout.h"

namespace smeltr::ring {

// A view on a mapped ring. One per process; constant-initialisable; no destructor.
class Writer {
 public:
  constexpr Writer() = default;

  // `ring` must stay mapped as long as any thread may write. `generation` tells this ring from those
  // the process had before a fork: per-thread blocks of another generation are forgotten.
  void Attach(RingHeader* ring, uint32_t generation);

  // True when the event is in the ring; false when it was dropped and counted.
  template <typename E>
  bool WriteAt(event::Api api, uint64_t ts_ns, const E& fields) {
    for (int attempt = 0; attempt < 2; ++attempt) {
      const std::span<std::byte> space = SpaceOfThread(attempt == 1);
      if (const size_t size = event::EncodeFrame(api, ts_ns, fields, *this, space); size != 0) {
        Commit(size);
        return true;
      }
    }
    CountDropped(E::kKind, 1);
    return false;
  }
  template <typename E>
  bool Write(event::Api api, const E& fields) {
    return WriteAt(api, MonotonicNowNs(), fields);
  }

  // The id of `text` in the ring's string table, adding it if new; 0 when the table is full or the
  // text too long. For names used again and again: event::Text{text, id} then skips the lookup.
  uint32_t Intern(std::string_view text);

  void CountDropped(event::Kind kind, uint64_t count);
  // Closes the calling thread's block. Called by itself when a thread ends.
  void ReleaseThreadBlock();
  // Says goodbye to the reader. Writing goes on working.
  void MarkClosed();

 private:
  // What is left of the thread's block; with `fresh`, of a newly claimed one. Empty when none is free.
  std::span<std::byte> SpaceOfThread(bool fresh);
  void Commit(size_t size);

  RingHeader* ring_ = nullptr;
  uint32_t generation_ = 0;
};

}  // namespace smeltr::ring
