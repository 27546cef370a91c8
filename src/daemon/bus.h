// Events and notices to subscribers, as they are appended. Not thread-safe: the loop's thread only.
//
// Each subscriber has a bounded queue of ready messages (ipc/stream.h). One that does not keep up loses the
// newest events, never anybody else's, and is told which: a Gap notice stands where they are missing. With no
// subscriber nothing here costs anything.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "event/event.h"
#include "event/names.h"
#include "ipc/message.h"

namespace smeltr::daemon {

using SubscriberId = uint64_t;

class Bus {
 public:
  static constexpr size_t kMaxSubscribers = 32;
  static constexpr size_t kQueueBytes = size_t{8} << 20;  // A subscriber.

  // `ready` is called, at most once until the next Take(), when there is a message to take. kInvalidArgument
  // for a kind that does not exist, kUnavailable when there are too many.
  Result<SubscriberId> Add(const ipc::Subscribe& filter, std::function<void()> ready, uint64_t now_ns);
  void Remove(SubscriberId id) { subscribers_.erase(id); }
  size_t subscriber_count() const { return subscribers_.size(); }

  // `event` as it was appended, as the session's `seq`.
  void Publish(std::string_view session_id, const event::Event& event, uint64_t seq);
  void Opened(const ipc::SessionOpened& session);
  void Closed(const ipc::SessionClosed& session);
  // Sends off what was published since the last call, after each pass over the rings.
  void Flush(uint64_t now_ns);
  // Heartbeats for those who heard nothing for long; `last_seqs` of the open sessions.
  void Poll(uint64_t now_ns, const ipc::Heartbeat& standing);
  // The last message for everybody.
  void Goodbye(std::string_view reason);

  // The next message, in order; nothing when all were taken.
  std::optional<std::string> Take(SubscriberId id);

 private:
  struct Pending {
    std::string batch;  // Header and events, not yet queued.
    ipc::Gap gap;       // count 0: none.
  };
  struct Subscriber {
    std::set<std::string, std::less<>> sessions;
    std::set<std::pair<event::Api, event::Kind>> kinds;
    std::set<uint32_t> pids;
    std::function<void()> ready;
    std::map<std::string, Pending, std::less<>> pending;  // By session.
    std::deque<std::string> queue;
    size_t queued_bytes = 0;
    uint64_t last_sent_ns = 0;
    bool called = false;

    bool Wants(std::string_view session_id, const event::Event& event) const;
    bool WantsSession(std::string_view session_id) const;
  };
  void Offer(Subscriber& subscriber, std::string_view session_id, uint64_t seq);
  static void SendPending(Subscriber& subscriber, Pending& pending);
  static void Queue(Subscriber& subscriber, std::string message);
  static void CallReady(Subscriber& subscriber);
  void Tell(std::string_view session_id, const ipc::Notice& notice);

  std::map<SubscriberId, Subscriber> subscribers_;
  SubscriberId last_id_ = 0;
  std::vector<std::byte> encoded_;  // The event being published.
};

}  // namespace smeltr::daemon
