// The hook inside the traced process: start, settings, and the one way to emit.
//
// Rules of this folder and of hook/*: this code lives in other people's processes.
//   - No exception leaves or crosses it (built with -fno-exceptions -fno-rtti).
//   - No lock, no heap, no system call on a submit path after warm-up; never prints.
//   - No static with a constructor or destructor; nothing happens when the library is loaded.
//   - Impossible states are counted and make the hook inert; they never stop the program.
//   - With SMELTR_HOOK_DISABLE=1, or outside a recording, it does nothing at all.
#pragma once

#include <atomic>
#include <cstdint>

#include "event/event.h"
#include "ring/writer.h"

namespace smeltr::hook {

// From the environment of the process, read once at the first EnsureStarted().
struct Settings {
  bool ops = true;         // SMELTR_HOOK_NO_OPS=1: no per-op capture, CB level only.
  bool exact_ops = false;  // SMELTR_HOOK_DISPATCH_BOUNDARY=1: a timestamp after every op (costly, see docs).
};

// Opens the process's ring in SMELTR_RING_DIR if this process is recorded and not yet started.
// Any thread, any number of times; cheap after the first. Returns whether the hook is active.
// Opens nothing when SMELTR_HOOK_DISABLE is set to anything but empty or 0.
bool EnsureStarted();

// One relaxed load. False before EnsureStarted(), outside recordings, and in a forked child until it
// calls EnsureStarted() itself (which opens the child's own ring).
bool Active();

// Only while Active().
const Settings& CurrentSettings();
ring::Writer& Writer();

// Changes with each ring the process opens (fork): interned Text ids of another generation are void.
uint32_t Generation();

// A new id for anything (CB, queue, heap, scope ...): unique in the process, rising, never 0.
// Threads draw from the one counter in batches; ids of one thread rise.
uint64_t NextId();

template <typename E>
void Emit(event::Api api, const E& fields) {
  if (Active()) Writer().Write(api, fields);
}
template <typename E>
void EmitAt(event::Api api, uint64_t ts_ns, const E& fields) {
  if (Active()) Writer().WriteAt(api, ts_ns, fields);
}

// Emits HookSkipped for the first, then every 2^n-th occurrence of a reason, with the running count.
void Skip(event::Api api, event::SkipReason reason, std::string_view detail = {});

}  // namespace smeltr::hook
