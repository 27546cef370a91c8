#include "hook/core/runtime.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <cstring>

#include "event/types.h"
#include "ring/failure.h"
#include "ring/life_lock.h"
#include "ring/segment.h"

namespace smeltr::hook {
namespace {

enum class State : uint32_t {
  kNotStarted,
  kStarting,
  kActive,
  kInert,  // Not recorded, switched off, or no ring to be had: final for this process.
};

constexpr uint64_t kIdBatch = 64;

// Everything is constant-initialised: nothing runs when the library is loaded.
constinit std::atomic<State> g_state{State::kNotStarted};
constinit Settings g_settings;
constinit ring::Writer g_writer;
constinit std::atomic<uint32_t> g_generation{1};
constinit std::span<std::byte> g_ring_bytes;
constinit ring::LockedFile g_ring_file;  // Open while the process lives: its lock says so.
constinit bool g_has_fork_handler = false;
pthread_once_t g_handlers_once = PTHREAD_ONCE_INIT;
constinit std::atomic<uint64_t> g_next_id{1};

struct IdRange {
  uint64_t next;
  uint64_t end;
};
constinit thread_local IdRange t_ids{};

using SkipCounts = std::array<std::array<std::atomic<uint64_t>, event::kEnumSize<event::SkipReason>>,
                              event::kEnumSize<event::Api>>;
constinit SkipCounts g_skip_counts{};

// Not for set-user-id programs: their environment is a stranger's.
const char* Environment(const char* name) {
  const char* value = ::secure_getenv(name);
  return value != nullptr && *value != '\0' ? value : nullptr;
}

bool IsSwitchedOn(const char* name) {
  const char* value = Environment(name);
  return value != nullptr && std::strcmp(value, "0") != 0;
}

ring::SegmentOptions RingOptions() {
  ring::SegmentOptions options;
  if (const char* value = Environment("SMELTR_RING_BLOCKS")) {
    std::from_chars(value, value + std::strlen(value), options.block_count);
  }
  return options;
}

// The child has one thread, and its ring would be the parent's: it starts over when it needs one.
void OnForkedChild() {
  ring::Writer::ForgetThreadBlock();
  g_writer = ring::Writer{};
  if (!g_ring_bytes.empty()) ::munmap(g_ring_bytes.data(), g_ring_bytes.size());
  g_ring_bytes = {};
  ring::CloseInherited(g_ring_file);
  g_ring_file = {};
  for (auto& counts : g_skip_counts) {
    for (auto& count : counts) count.store(0, std::memory_order_relaxed);
  }
  g_generation.fetch_add(1, std::memory_order_relaxed);
  g_state.store(State::kNotStarted, std::memory_order_release);
}

void OnExit() {
  if (Active()) g_writer.MarkClosed();
}

void RegisterHandlers() {
  g_has_fork_handler = ::pthread_atfork(nullptr, nullptr, OnForkedChild) == 0;
  // Should it fail: the daemon learns of the end by the end of the process.
  static_cast<void>(std::atexit(OnExit));
}

void SayHello() {
  std::array<char, 1024> path;
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size());
  const std::string_view executable(path.data(), length > 0 ? static_cast<size_t>(length) : 0);
  const auto& header = *reinterpret_cast<const ring::RingHeader*>(g_ring_bytes.data());
  g_writer.Write(event::Api::kNone, event::HookHello{.version = SMELTR_VERSION,
                                                     .executable = executable,
                                                     .start_time_ticks = header.start_time_ticks});
}

bool IsRecorded() {
  return Environment("SMELTR_RING_DIR") != nullptr && !IsSwitchedOn("SMELTR_HOOK_DISABLE");
}

State Start() {
  g_settings = {.ops = !IsSwitchedOn("SMELTR_HOOK_NO_OPS"),
                .exact_ops = IsSwitchedOn("SMELTR_HOOK_DISPATCH_BOUNDARY")};
  const char* const directory = Environment("SMELTR_RING_DIR");
  auto segment = ring::Segment::Create(directory, RingOptions());
  if (!segment.has_value()) {
    ring::LeaveFailure(directory, segment.error().code());
    return State::kInert;
  }
  g_ring_bytes = segment->bytes();
  g_writer.Attach(&segment->header(), Generation());
  g_ring_file = ring::Remember(segment->Leak());
  SayHello();
  return State::kActive;
}

}  // namespace

bool Active() { return g_state.load(std::memory_order_relaxed) == State::kActive; }

bool EnsureStarted() {
  State state = g_state.load(std::memory_order_acquire);
  if (state == State::kNotStarted) {
    const bool recorded = IsRecorded();
    // Before the state says so: a fork in the middle of the start then finds the handler that undoes it.
    if (recorded) ::pthread_once(&g_handlers_once, RegisterHandlers);
    const bool can_start = recorded && g_has_fork_handler;
    const State next = can_start ? State::kStarting : State::kInert;
    if (g_state.compare_exchange_strong(state, next, std::memory_order_acquire) && can_start) {
      g_state.store(Start(), std::memory_order_release);
    }
  }
  // Another thread may be starting: once a process, some file-system calls long.
  while ((state = g_state.load(std::memory_order_acquire)) == State::kStarting) ::sched_yield();
  return state == State::kActive;
}

const Settings& CurrentSettings() { return g_settings; }

ring::Writer& Writer() { return g_writer; }

uint32_t Generation() { return g_generation.load(std::memory_order_relaxed); }

uint64_t NextId() {
  if (t_ids.next == t_ids.end) {
    t_ids.next = g_next_id.fetch_add(kIdBatch, std::memory_order_relaxed);
    t_ids.end = t_ids.next + kIdBatch;
  }
  return t_ids.next++;
}

void Skip(event::Api api, event::SkipReason reason, std::string_view detail) {
  const auto api_index = static_cast<size_t>(api);
  const auto reason_index = static_cast<size_t>(reason);
  if (!Active() || api_index >= g_skip_counts.size() || reason_index >= g_skip_counts[0].size()) return;
  const uint64_t count = g_skip_counts[api_index][reason_index].fetch_add(1, std::memory_order_relaxed) + 1;
  if (!std::has_single_bit(count)) return;
  g_writer.Write(api, event::HookSkipped{.reason = reason, .detail = detail, .count = count});
}

}  // namespace smeltr::hook
