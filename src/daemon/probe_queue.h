// Events on their way from the probes' threads to the loop. Thread-safe, bounded.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "event/event.h"
#include "event/owned.h"

namespace smeltr::daemon {

class ProbeQueue {
 public:
  static constexpr size_t kMaxEvents = 8192;
  static constexpr size_t kMaxBytes = size_t{2} << 20;

  explicit ProbeQueue(std::function<void()> wake) : wake_(std::move(wake)) {}

  // What does not fit pushes out the oldest, or is itself left out when it is too large to own.
  void Push(std::string_view session_id, const event::Event& event);
  // Tells the loop, once, that there is something to take.
  void Wake();
  // Wake() does nothing from now on.
  void Silence();

  using Sink = std::function<void(std::string_view session_id, const event::Event& event)>;
  // On the loop's thread.
  void Take(const Sink& sink);
  uint64_t dropped_count() const;

 private:
  struct Item {
    std::string session_id;
    std::vector<std::byte> bytes;
  };
  mutable std::mutex mutex_;
  std::deque<Item> items_;
  size_t bytes_ = 0;
  uint64_t dropped_ = 0;
  std::vector<std::byte> arena_;  // Take()'s own.

  std::mutex wake_mutex_;  // Held during a call of wake_, so that there is none after Silence().
  std::function<void()> wake_;
  bool waking_ = false;  // Told, not taken yet. Under mutex_.
};

}  // namespace smeltr::daemon
