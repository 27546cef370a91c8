#include "daemon/probes.h"

#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "daemon/probe_cost.h"
#include "daemon/probe_queue.h"

namespace smeltr::daemon {
namespace {

using probe::Health;

constexpr uint64_t kFirstPauseNs = kNsPerSecond / 2;
constexpr uint64_t kLongestPauseNs = 600 * kNsPerSecond;
constexpr uint64_t kHealthyNs = 60 * kNsPerSecond;
// A probe that is not wanted now is asked again at the latest after that.
constexpr uint64_t kUnwantedNs = 60 * kNsPerSecond;
constexpr std::chrono::seconds kPatience{1};

uint64_t ThreadCpuNs() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<uint64_t>(used.tv_sec) * kNsPerSecond + static_cast<uint64_t>(used.tv_nsec);
}

std::chrono::steady_clock::time_point TimePoint(uint64_t monotonic_ns) {
  return std::chrono::steady_clock::time_point(std::chrono::nanoseconds(monotonic_ns));
}

// Threads begun meanwhile leave the process's signals to the main thread, except those that tell of their
// own faults.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t others;
    ::sigfillset(&others);
    for (const int own : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) {
      ::sigdelset(&others, own);
    }
    ::pthread_sigmask(SIG_BLOCK, &others, &before_);
  }
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_{};
};

// The next common multiple, so that probes wake together: one wake-up of the processor instead of many.
uint64_t NextTick(uint64_t now_ns, uint64_t period_ns) { return (now_ns / period_ns + 1) * period_ns; }

}  // namespace

// A probe with its thread's state. Under Shared::mutex, except `probe`, which is the thread's.
struct ProbeSlot {
  std::unique_ptr<probe::Probe> probe;
  ProbeState state;
  ProbeCost cost;
  uint64_t deadline_ns = 0;
  uint64_t reading_since_ns = 0;  // 0: between readings.
  bool hung = false;              // The reading under way has missed its deadline.
  uint64_t pause_ns = kFirstPauseNs;
  uint64_t healthy_since_ns = 0;
};

struct Probes::Shared {
  explicit Shared(std::function<void()> wake) : queue(std::move(wake)) {}

  void Run(ProbeSlot& slot);
  void SetHealth(ProbeSlot& slot, Health health, std::string reason, uint64_t now_ns);
  uint64_t Settle(ProbeSlot& slot, probe::Status status, uint64_t started_ns, uint64_t cpu_ns);
  uint64_t PauseAfterFailure(ProbeSlot& slot, uint64_t now_ns);

  ProbeQueue queue;
  std::mutex mutex;
  std::condition_variable changed;   // Recordings or `stopping`.
  std::condition_variable finished;  // A thread is about to end.
  std::vector<std::unique_ptr<ProbeSlot>> slots;
  std::vector<probe::Recorded> recordings;
  uint64_t recordings_version = 0;
  size_t running = 0;
  bool stopping = false;
};

namespace {

class QueueSink : public probe::Sink {
 public:
  explicit QueueSink(ProbeQueue& queue) : queue_(queue) {}
  void Emit(const event::Event& event) override { queue_.Push({}, event); }
  void EmitTo(std::string_view session_id, const event::Event& event) override {
    queue_.Push(session_id, event);
  }

 private:
  ProbeQueue& queue_;
};

bool IsWanted(const probe::Probe& probe, const probe::Context& context) {
  try {
    return probe.Wanted(context);
  } catch (...) {
    return true;  // Its reading will say what is wrong.
  }
}

probe::Status SampleContained(probe::Probe& probe, const probe::Context& context, probe::Sink& sink) {
  try {
    return probe.Sample(context, sink);
  } catch (const std::exception& thrown) {
    return {.health = Health::kFailed, .reason = fmt::format("the reading failed: {}", thrown.what())};
  } catch (...) {
    return {.health = Health::kFailed, .reason = "the reading failed with an unknown exception"};
  }
}

std::string TooSlow(uint64_t deadline_ns) {
  return fmt::format("a reading took longer than {:.1f} s", static_cast<double>(deadline_ns) / 1e9);
}

}  // namespace

void Probes::Shared::SetHealth(ProbeSlot& slot, Health health, std::string reason, uint64_t now_ns) {
  if (slot.state.health == health && slot.state.reason == reason) return;
  slot.state.health = health;
  slot.state.reason = std::move(reason);
  slot.state.cost_pct = slot.cost.Percent(now_ns);
  event::Event event;
  event.envelope.ts_ns = now_ns;
  event.payload = event::ProbeHealth{.probe = std::string_view(slot.state.name),
                                     .state = probe::Name(health),
                                     .reason = std::string_view(slot.state.reason),
                                     .cost_pct = slot.state.cost_pct};
  queue.Push({}, event);
}

uint64_t Probes::Shared::PauseAfterFailure(ProbeSlot& slot, uint64_t now_ns) {
  slot.healthy_since_ns = 0;
  const uint64_t pause_ns = slot.pause_ns;
  slot.pause_ns = std::min(slot.pause_ns * 2, kLongestPauseNs);
  return now_ns + pause_ns;
}

// After a reading: what it says of the probe's health, and when the next one is due.
uint64_t Probes::Shared::Settle(ProbeSlot& slot, probe::Status status, uint64_t started_ns, uint64_t cpu_ns) {
  const uint64_t now_ns = MonotonicNowNs();
  slot.cost.Add(now_ns, cpu_ns);
  slot.reading_since_ns = 0;
  if (std::exchange(slot.hung, false) || now_ns - started_ns > slot.deadline_ns) {
    status = {.health = Health::kFailed, .reason = TooSlow(slot.deadline_ns)};
  }
  if (status.health == Health::kFailed || status.health == Health::kAbsent) {
    SetHealth(slot, status.health, std::move(status.reason), now_ns);
    return PauseAfterFailure(slot, now_ns);
  }
  ++slot.state.readings;
  if (slot.healthy_since_ns == 0) slot.healthy_since_ns = now_ns;
  if (now_ns - slot.healthy_since_ns >= kHealthyNs) slot.pause_ns = kFirstPauseNs;
  const uint64_t own_period_ns = std::max<uint64_t>(slot.probe->period_ns(), 1);
  const uint64_t period_ns = slot.cost.AffordablePeriod(own_period_ns);
  if (slot.cost.slowed() && status.health != Health::kDegraded) {
    status = {.health = Health::kDegraded, .reason = "costs more than 1 % of a core and is run less often"};
  }
  SetHealth(slot, status.health, std::move(status.reason), now_ns);
  return NextTick(now_ns, period_ns);
}

void Probes::Shared::Run(ProbeSlot& slot) {
  QueueSink sink(queue);
  probe::Context context;
  uint64_t known_version = 0;
  std::unique_lock lock(mutex);
  slot.cost.Start(MonotonicNowNs());
  while (!stopping) {
    if (known_version != recordings_version || context.now_ns == 0) {
      context.recordings = recordings;
      known_version = recordings_version;
    }
    const uint64_t started_ns = MonotonicNowNs();
    context.now_ns = started_ns;
    lock.unlock();
    const bool wanted = IsWanted(*slot.probe, context);
    lock.lock();
    if (!wanted) {
      changed.wait_until(lock, TimePoint(started_ns + kUnwantedNs),
                         [&] { return stopping || known_version != recordings_version; });
      continue;
    }
    slot.reading_since_ns = started_ns;
    lock.unlock();
    const uint64_t cpu_before_ns = ThreadCpuNs();
    probe::Status status = SampleContained(*slot.probe, context, sink);
    const uint64_t cpu_ns = ThreadCpuNs() - cpu_before_ns;
    lock.lock();
    const uint64_t due_ns = Settle(slot, std::move(status), started_ns, cpu_ns);
    lock.unlock();
    queue.Wake();
    lock.lock();
    changed.wait_until(lock, TimePoint(due_ns), [&] { return stopping; });
  }
  --running;
  finished.notify_all();
}

Probes::Probes(std::vector<std::unique_ptr<probe::Probe>> probes, std::function<void()> wake)
    : shared_(std::make_shared<Shared>(std::move(wake))) {
  for (auto& probe : probes) {
    auto slot = std::make_unique<ProbeSlot>();
    slot->state.name = probe->name();
    slot->deadline_ns = probe->deadline_ns();
    slot->probe = std::move(probe);
    shared_->slots.push_back(std::move(slot));
  }
}

Probes::~Probes() {
  shared_->queue.Silence();
  std::vector<std::unique_ptr<ProbeSlot>> ended;
  std::unique_lock lock(shared_->mutex);
  shared_->stopping = true;
  shared_->changed.notify_all();
  // Unless one hangs, the probes end here and not with the last thread, which the process may outrun.
  if (shared_->finished.wait_for(lock, kPatience, [this] { return shared_->running == 0; })) {
    ended.swap(shared_->slots);
  }
  lock.unlock();
}

void Probes::Start() {
  const SignalsBlocked blocked;
  const std::lock_guard lock(shared_->mutex);
  for (const auto& slot : shared_->slots) {
    try {
      // Detached: one that hangs can be neither joined nor ended. What it uses lives as long as it does.
      std::thread([shared = shared_, at = slot.get()] { shared->Run(*at); }).detach();
      ++shared_->running;
    } catch (const std::system_error& error) {
      shared_->SetHealth(*slot, Health::kFailed, fmt::format("no thread for it: {}", error.what()),
                         MonotonicNowNs());
    }
  }
}

void Probes::SetRecordings(std::vector<probe::Recorded> recordings) {
  const std::lock_guard lock(shared_->mutex);
  shared_->recordings = std::move(recordings);
  ++shared_->recordings_version;
  shared_->changed.notify_all();
}

void Probes::Take(const Sink& sink) { shared_->queue.Take(sink); }

uint64_t Probes::dropped_count() const { return shared_->queue.dropped_count(); }

void Probes::Poll(uint64_t now_ns) {
  {
    const std::lock_guard lock(shared_->mutex);
    for (const auto& slot : shared_->slots) {
      const uint64_t since_ns = slot->reading_since_ns;
      if (since_ns == 0 || slot->hung || now_ns < since_ns || now_ns - since_ns <= slot->deadline_ns) {
        continue;
      }
      slot->hung = true;
      slot->healthy_since_ns = 0;
      shared_->SetHealth(*slot, Health::kFailed, TooSlow(slot->deadline_ns) + " and has not returned",
                         now_ns);
    }
  }
  shared_->queue.Wake();
}

std::vector<ProbeState> Probes::states() const {
  const uint64_t now_ns = MonotonicNowNs();
  const std::lock_guard lock(shared_->mutex);
  std::vector<ProbeState> states;
  for (const auto& slot : shared_->slots) {
    states.push_back(slot->state);
    if (shared_->running > 0) states.back().cost_pct = slot->cost.Percent(now_ns);
  }
  return states;
}

}  // namespace smeltr::daemon
