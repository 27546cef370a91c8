#include "hook/vulkan/poller.h"

#include <signal.h>
#include <time.h>

#include <algorithm>

#include "base/clock.h"
#include "hook/vulkan/memory_samples.h"

namespace smeltr::hook::vulkan {
namespace {

constexpr uint64_t kShortSleepNs = 500'000;  // While something without timestamps is in flight.
constexpr uint64_t kSleepNs = 2'000'000;     // Timestamps say when; looking may come later.
constexpr uint64_t kLongestSleepNs = 20'000'000;
constexpr uint64_t kIdleBeforeParkNs = 100'000'000;
constexpr uint64_t kStopWaitNs = 2'000'000'000;
constexpr uint64_t kExitWaitNs = 200'000'000;  // On a busy machine reading the last results takes a while.

constinit std::atomic<bool> g_exiting{false};
constinit std::atomic<uint32_t> g_unfinished{0};  // Pollers that may still make a Vulkan call.

timespec After(uint64_t ns) {
  const uint64_t at = MonotonicNowNs() + ns;
  return {.tv_sec = static_cast<time_t>(at / kNsPerSecond), .tv_nsec = static_cast<long>(at % kNsPerSecond)};
}

}  // namespace

uint64_t RefreshCompleted(Queue& queue) {
  uint64_t completed = queue.completed.load(std::memory_order_relaxed);
  Device& device = *queue.device;
  if (queue.timeline == VK_NULL_HANDLE || device.lost.load(std::memory_order_relaxed)) return completed;
  uint64_t value = 0;
  const VkResult result = device.next.GetSemaphoreCounterValue(device.handle, queue.timeline, &value);
  if (result != VK_SUCCESS) {
    Report(device, "vkGetSemaphoreCounterValue", result, {.queue_id = queue.id});
    return completed;
  }
  while (completed < value && !queue.completed.compare_exchange_weak(completed, value)) {
  }
  return std::max(completed, value);
}

void Poller::Start() {
  pthread_condattr_t attributes;
  pthread_condattr_init(&attributes);
  pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
  pthread_cond_init(&wake_, &attributes);
  pthread_condattr_destroy(&attributes);
  // The program's signals are for the program's threads.
  sigset_t all;
  sigset_t before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  g_unfinished.fetch_add(1);
  const bool started = pthread_create(&thread_, nullptr, &Poller::Run, this) == 0;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (!started) {
    g_unfinished.fetch_sub(1);
    return Skip(kApi, event::SkipReason::kFeatureUnavailable, "no thread for watching completions");
  }
  started_.store(true, std::memory_order_release);
}

void Poller::NoteSubmission() {
  std::atomic_thread_fence(std::memory_order_seq_cst);
  if (parked_.load(std::memory_order_relaxed)) Wake();
}

void Poller::Wake() {
  pthread_mutex_lock(&mutex_);
  if (!g_exiting.load(std::memory_order_relaxed)) parked_.store(false, std::memory_order_relaxed);
  pthread_cond_signal(&wake_);
  pthread_mutex_unlock(&mutex_);
}

void* Poller::Run(void* self) {
  static_cast<Poller*>(self)->Loop();
  return nullptr;
}

void Poller::Loop() {
  pthread_setname_np(pthread_self(), "smeltr-vk");
  uint64_t sleep_ns = kSleepNs;
  uint64_t busy_ns = MonotonicNowNs();
  uint64_t calibrated_ns = 0;
  while (!stop_.load(std::memory_order_acquire) && !g_exiting.load(std::memory_order_acquire)) {
    const uint64_t now_ns = MonotonicNowNs();
    if (now_ns - calibrated_ns > kNsPerSecond) {
      BeginLooking();
      publisher_.Calibrate(now_ns);
      EndLooking();
      SampleMemory(device_, event::MemSampleAt::kPeriodic, now_ns);
      calibrated_ns = now_ns;
    }
    if (Look()) busy_ns = now_ns;
    if (progressed_) sleep_ns = kSleepNs;
    if (now_ns - busy_ns > kIdleBeforeParkNs) {
      Park();
      busy_ns = MonotonicNowNs();
      continue;
    }
    Sleep(untimed_in_flight_ ? kShortSleepNs : sleep_ns);
    sleep_ns = std::min(sleep_ns + sleep_ns / 2, kLongestSleepNs);
  }
  Look();
  Writer().ReleaseThreadBlock();
  g_unfinished.fetch_sub(1);
  pthread_mutex_lock(&mutex_);
  done_.store(true, std::memory_order_release);
  pthread_cond_broadcast(&wake_);
  pthread_mutex_unlock(&mutex_);
}

void Poller::Sleep(uint64_t ns) {
  const timespec until = After(ns);
  pthread_mutex_lock(&mutex_);
  if (!stop_.load(std::memory_order_relaxed) && !g_exiting.load(std::memory_order_relaxed)) {
    pthread_cond_timedwait(&wake_, &mutex_, &until);
  }
  pthread_mutex_unlock(&mutex_);
}

void Poller::Park() {
  pthread_mutex_lock(&mutex_);
  parked_.store(true, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_seq_cst);
  bool in_flight = false;
  for (const Queue* queue = device_.queues.load(std::memory_order_acquire); queue != nullptr;
       queue = queue->next_of_device) {
    in_flight = in_flight || !queue->tracker.empty();
  }
  // A submission after this look sees parked_ and wakes us.
  g_unfinished.fetch_sub(1);
  while (!in_flight && parked_.load(std::memory_order_relaxed) && !stop_.load(std::memory_order_relaxed)) {
    pthread_cond_wait(&wake_, &mutex_);
  }
  g_unfinished.fetch_add(1);
  parked_.store(false, std::memory_order_relaxed);
  pthread_mutex_unlock(&mutex_);
}

void Poller::BeginLooking() {
  while (looking_.test_and_set(std::memory_order_acquire)) {
    const timespec moment{.tv_sec = 0, .tv_nsec = 20'000};
    nanosleep(&moment, nullptr);
  }
}

bool Poller::Look() {
  BeginLooking();
  const bool in_flight = LookAtAll();
  EndLooking();
  return in_flight;
}

void Poller::NoteCompletion() {
  if (device_.traits.llvmpipe || !started_.load(std::memory_order_relaxed)) return;
  if (device_.lost.load(std::memory_order_relaxed) || g_exiting.load(std::memory_order_relaxed)) return;
  bool in_flight = false;
  for (const Queue* queue = device_.queues.load(std::memory_order_acquire); queue != nullptr;
       queue = queue->next_of_device) {
    in_flight = in_flight || !queue->tracker.empty();
  }
  if (!in_flight || looking_.test_and_set(std::memory_order_acquire)) return;
  LookAtAll();
  EndLooking();
}

bool Poller::LookAtAll() {
  progressed_ = false;
  untimed_in_flight_ = false;
  if (device_.lost.load(std::memory_order_relaxed)) {
    FailAll(event::CbStatus::kError, VK_ERROR_DEVICE_LOST);
    return false;
  }
  bool in_flight = false;
  for (Queue* queue = device_.queues.load(std::memory_order_acquire); queue != nullptr;
       queue = queue->next_of_device) {
    if (!queue->tracker.empty()) in_flight = LookAt(*queue) || in_flight;
  }
  return in_flight;
}

bool Poller::LookAt(Queue& queue) {
  uint64_t completed = RefreshCompleted(queue);
  if (const uint64_t fenced = queue.fences.Completed(device_, completed); fenced > completed) {
    completed = fenced;
    queue.completed.store(completed, std::memory_order_relaxed);
  }
  const uint64_t now_ns = MonotonicNowNs();
  queue.tracker.MarkSeen(completed, now_ns);
  uint32_t ahead = 0;  // Of those to come, read already.
  while (TrackedCb* cb = queue.tracker.Front()) {
    if (cb->submission > completed) break;
    auto* recording = static_cast<Recording*>(cb->recording);
    // On llvmpipe a read blocks until the device is idle; a recording that may be submitted again meanwhile
    // must not be held for so long. Its submitter reads it then, or it waits for the device to be idle.
    const bool would_block = device_.traits.llvmpipe && completed < queue.tracker.last_submission();
    const bool may_block = !g_exiting.load(std::memory_order_relaxed);
    if (would_block && ahead == 0) {
      if (MayRunAgain(*cb)) break;
      if (may_block) ahead = publisher_.ReadAhead(queue, completed);
    }
    publisher_.Publish(queue, *cb, !would_block || may_block);
    ahead -= std::min(ahead, 1U);
    if (recording != nullptr) Release(*recording);
    queue.tracker.Pop();
    progressed_ = true;
  }
  while (const TrackedCb* slow = queue.tracker.NextSlow(now_ns)) publisher_.WarnSlow(queue, *slow, now_ns);
  const TrackedCb* front = queue.tracker.Front();
  if (front == nullptr) return false;
  const auto* recording = static_cast<const Recording*>(front->recording);
  untimed_in_flight_ = untimed_in_flight_ || recording == nullptr || !recording->begun;
  return true;
}

void Poller::FailAll(event::CbStatus status, VkResult error) {
  const uint64_t now_ns = MonotonicNowNs();
  for (Queue* queue = device_.queues.load(std::memory_order_acquire); queue != nullptr;
       queue = queue->next_of_device) {
    // What was known to be complete before, is.
    const uint64_t completed = queue->completed.load(std::memory_order_relaxed);
    queue->tracker.MarkSeen(completed, now_ns);
    while (const TrackedCb* cb = queue->tracker.Front()) {
      if (cb->submission <= completed) {
        publisher_.Publish(*queue, *cb, false);
      } else {
        publisher_.PublishFailed(*queue, *cb, status, error, now_ns);
      }
      if (cb->recording != nullptr) Release(*static_cast<Recording*>(cb->recording));
      queue->tracker.Pop();
    }
  }
}

bool Poller::Stop() {
  if (started_.load(std::memory_order_acquire)) {
    const timespec until = After(kStopWaitNs);
    pthread_mutex_lock(&mutex_);
    stop_.store(true, std::memory_order_release);
    pthread_cond_broadcast(&wake_);
    int waited = 0;
    while (!done_.load(std::memory_order_relaxed) && waited == 0) {
      waited = pthread_cond_timedwait(&wake_, &mutex_, &until);
    }
    const bool done = done_.load(std::memory_order_relaxed);
    pthread_mutex_unlock(&mutex_);
    if (!done) {
      pthread_detach(thread_);
      return false;
    }
    pthread_join(thread_, nullptr);
  }
  FailAll(event::CbStatus::kAbandoned, VK_SUCCESS);
  return true;
}

void Poller::StopAllAtExit() {
  g_exiting.store(true, std::memory_order_release);
  Devices().ForEach([](Device* device) {
    if (device->poller != nullptr && device->poller->started_.load(std::memory_order_acquire)) {
      device->poller->Wake();
    }
  });
  const uint64_t give_up_ns = MonotonicNowNs() + kExitWaitNs;
  while (g_unfinished.load(std::memory_order_acquire) > 0 && MonotonicNowNs() < give_up_ns) {
    const timespec moment{.tv_sec = 0, .tv_nsec = 200'000};
    nanosleep(&moment, nullptr);
  }
}

}  // namespace smeltr::hook::vulkan
