// The thread that watches a device's queues: reads their progress, then the times of what has completed, and
// writes the events. One per device, started at its first submission; parked while nothing is in flight.
// It is the only thread that reads query results while the device works (llvmpipe blocks there).
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>

#include "hook/vulkan/publish.h"
#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

class Poller {
 public:
  explicit Poller(Device& device) : device_(device), publisher_(device) {}

  // Starts the thread; without one nothing is ever reported complete. Before the first submission.
  void Start();
  // After a submission went down, on its thread.
  void NoteSubmission();
  // On a thread of the program that has just learned of a completion: what is complete is written before it
  // goes on, lest it dies next. Neither where reading would block, nor while the watching thread is at it.
  void NoteCompletion();
  // Before vkDestroyDevice: publishes what is complete, reports the rest as abandoned, ends the thread.
  // False when the thread is stuck in a driver call: then nothing it uses may be freed.
  bool Stop();

  // At exit of the process: every poller looks a last time, then none makes another Vulkan call. Waits for
  // that, but not for long.
  static void StopAllAtExit();

 private:
  static void* Run(void* self);
  void Loop();
  // One look at all queues; whether anything is in flight. Of the watching thread.
  bool Look();
  bool LookAtAll();
  void BeginLooking();
  void EndLooking() { looking_.clear(std::memory_order_release); }
  bool LookAt(Queue& queue);
  void FailAll(event::CbStatus status, VkResult error);
  void Sleep(uint64_t ns);
  void Park();
  void Wake();

  Device& device_;
  Publisher publisher_;
  pthread_t thread_{};
  std::atomic<bool> started_{false};
  std::atomic<bool> stop_{false};
  std::atomic<bool> done_{false};
  std::atomic<bool> parked_{false};
  std::atomic_flag looking_{};  // Whoever has set it may read, write and take out what is in flight.
  pthread_mutex_t mutex_ = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t wake_;
  // Of the last look.
  std::atomic<bool> progressed_{false};
  std::atomic<bool> untimed_in_flight_{false};
};

// How far `queue` has come, by asking the driver without blocking, or as last known. Any thread.
uint64_t RefreshCompleted(Queue& queue);

}  // namespace smeltr::hook::vulkan
