#include "daemon/probe_queue.h"

#include <span>

namespace smeltr::daemon {

void ProbeQueue::Push(std::string_view session_id, const event::Event& event) {
  Item item{.session_id = std::string(session_id), .bytes = {}};
  const bool owned = event::AppendOwned(event, item.bytes);
  item.bytes.shrink_to_fit();
  const std::lock_guard lock(mutex_);
  if (!owned) {
    ++dropped_;
    return;
  }
  bytes_ += item.bytes.size();
  items_.push_back(std::move(item));
  while (items_.size() > kMaxEvents || bytes_ > kMaxBytes) {
    bytes_ -= items_.front().bytes.size();
    items_.pop_front();
    ++dropped_;
  }
}

void ProbeQueue::Wake() {
  {
    const std::lock_guard lock(mutex_);
    if (items_.empty() || waking_) return;
    waking_ = true;
  }
  const std::lock_guard lock(wake_mutex_);
  if (wake_) wake_();
}

void ProbeQueue::Silence() {
  const std::lock_guard lock(wake_mutex_);
  wake_ = nullptr;
}

void ProbeQueue::Take(const Sink& sink) {
  std::deque<Item> taken;
  {
    const std::lock_guard lock(mutex_);
    taken.swap(items_);
    bytes_ = 0;
    waking_ = false;
  }
  for (const Item& item : taken) {
    // A list takes at most six times as much in memory as in a frame: texts are views.
    arena_.resize(item.bytes.size() * 8 + 64);
    event::DecodeArena arena(arena_);
    std::span<const std::byte> bytes(item.bytes);
    const auto event = event::TakeOwned(bytes, arena);
    if (event.has_value()) sink(item.session_id, *event);
  }
  constexpr size_t kUsualBytes = size_t{64} << 10;
  if (arena_.size() > kUsualBytes) arena_ = {};
}

uint64_t ProbeQueue::dropped_count() const {
  const std::lock_guard lock(mutex_);
  return dropped_;
}

}  // namespace smeltr::daemon
