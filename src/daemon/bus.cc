#include "daemon/bus.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "event/owned.h"
#include "ipc/connection.h"
#include "ipc/stream.h"

namespace smeltr::daemon {
namespace {

// A batch is sent at this size, or at the end of a pass.
constexpr size_t kBatchBytes = size_t{64} << 10;
// An event may be larger than a batch, never than a message.
static_assert(kBatchBytes + event::kMaxOwnedBytes + ipc::kBatchHeaderBytes < ipc::kMaxMessageBytes);
// Notices are few and small; they may still go where events no longer do.
constexpr size_t kNoticeBytes = size_t{256} << 10;
constexpr uint64_t kHeartbeatNs = uint64_t{ipc::kHeartbeatMs} * 1'000'000;

}  // namespace

bool Bus::Subscriber::WantsSession(std::string_view session_id) const {
  return sessions.empty() || sessions.contains(session_id);
}

bool Bus::Subscriber::Wants(std::string_view session_id, const event::Event& event) const {
  if (!WantsSession(session_id)) return false;
  if (!pids.empty() && !pids.contains(event.envelope.pid)) return false;
  if (kinds.empty()) return true;
  const event::Kind kind = event::KindOf(event.payload);
  const event::KindInfo* info = event::FindKind(kind);
  const bool per_api = info != nullptr && info->naming == event::Naming::kPerApi;
  return kinds.contains({per_api ? event.envelope.api : event::Api::kNone, kind});
}

Result<SubscriberId> Bus::Add(const ipc::Subscribe& filter, std::function<void()> ready, uint64_t now_ns) {
  if (subscribers_.size() >= kMaxSubscribers) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{} subscribers are there already", kMaxSubscribers));
  }
  Subscriber subscriber;
  for (const std::string& name : filter.kinds) {
    const auto kind = event::ParseKindName(name);
    if (!kind.has_value()) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no event kind '{}'", name));
    }
    subscriber.kinds.emplace(kind->api, kind->kind);
  }
  subscriber.sessions.insert(filter.session_ids.begin(), filter.session_ids.end());
  subscriber.pids.insert(filter.pids.begin(), filter.pids.end());
  subscriber.ready = std::move(ready);
  subscriber.last_sent_ns = now_ns;
  subscribers_.emplace(++last_id_, std::move(subscriber));
  return last_id_;
}

void Bus::Publish(std::string_view session_id, const event::Event& event, uint64_t seq) {
  encoded_.clear();
  for (auto& [id, subscriber] : subscribers_) {
    if (!subscriber.Wants(session_id, event)) continue;
    // Larger than any message: as good as lost on the way, and said so.
    if (encoded_.empty() && event::AppendOwned(event, encoded_)) {
      std::memcpy(encoded_.data(), &seq, sizeof(seq));
    }
    Offer(subscriber, session_id, seq);
  }
}

void Bus::Offer(Subscriber& subscriber, std::string_view session_id, uint64_t seq) {
  auto found = subscriber.pending.find(session_id);
  if (found == subscriber.pending.end()) {
    found = subscriber.pending.try_emplace(std::string(session_id)).first;
  }
  Pending& pending = found->second;
  const size_t in_hand = subscriber.queued_bytes + pending.batch.size();
  if (encoded_.empty() || in_hand + encoded_.size() > kQueueBytes) {
    // What is in the batch came before.
    if (pending.gap.count == 0) {
      SendPending(subscriber, pending);
      pending.gap = {std::string(session_id), seq, seq, 0};
    }
    pending.gap.last_missing_seq = seq;
    ++pending.gap.count;
    return;
  }
  if (pending.gap.count != 0) SendPending(subscriber, pending);
  if (pending.batch.empty()) pending.batch = ipc::BatchHeader(session_id);
  pending.batch.append(reinterpret_cast<const char*>(encoded_.data()), encoded_.size());
  if (pending.batch.size() >= kBatchBytes) SendPending(subscriber, pending);
}

// The gap, if there is one, comes after the batch: both are never pending together otherwise.
void Bus::SendPending(Subscriber& subscriber, Pending& pending) {
  if (!pending.batch.empty()) Queue(subscriber, std::exchange(pending.batch, {}));
  if (pending.gap.count != 0) Queue(subscriber, ipc::Encode(ipc::Notice(std::exchange(pending.gap, {}))));
}

void Bus::Queue(Subscriber& subscriber, std::string message) {
  subscriber.queued_bytes += message.size();
  subscriber.queue.push_back(std::move(message));
}

void Bus::CallReady(Subscriber& subscriber) {
  if (subscriber.queue.empty() || std::exchange(subscriber.called, true)) return;
  subscriber.ready();
}

void Bus::Tell(std::string_view session_id, const ipc::Notice& notice) {
  for (auto& [id, subscriber] : subscribers_) {
    if (!session_id.empty() && !subscriber.WantsSession(session_id)) continue;
    const auto pending = subscriber.pending.find(session_id);
    if (pending != subscriber.pending.end()) SendPending(subscriber, pending->second);
    if (subscriber.queued_bytes < kQueueBytes + kNoticeBytes) Queue(subscriber, ipc::Encode(notice));
  }
}

void Bus::Opened(const ipc::SessionOpened& session) { Tell(session.session_id, session); }

void Bus::Closed(const ipc::SessionClosed& session) {
  Tell(session.session_id, session);
  for (auto& [id, subscriber] : subscribers_) subscriber.pending.erase(session.session_id);
}

void Bus::Flush(uint64_t now_ns) {
  for (auto& [id, subscriber] : subscribers_) {
    for (auto& [session_id, pending] : subscriber.pending) {
      // A gap is told when there is room again, so that it covers all that is missing.
      if (pending.gap.count == 0 || subscriber.queued_bytes < kQueueBytes / 2) {
        SendPending(subscriber, pending);
      }
    }
    if (subscriber.queue.empty()) continue;
    subscriber.last_sent_ns = now_ns;
    CallReady(subscriber);
  }
}

void Bus::Poll(uint64_t now_ns, const ipc::Heartbeat& standing) {
  for (auto& [id, subscriber] : subscribers_) {
    if (now_ns - subscriber.last_sent_ns < kHeartbeatNs) continue;
    ipc::Heartbeat mine;
    for (size_t i = 0; i < standing.session_ids.size(); ++i) {
      if (!subscriber.WantsSession(standing.session_ids[i])) continue;
      mine.session_ids.push_back(standing.session_ids[i]);
      mine.last_seqs.push_back(standing.last_seqs[i]);
    }
    // A queue that is not taken from needs no more of them.
    if (subscriber.queue.empty()) Queue(subscriber, ipc::Encode(ipc::Notice(mine)));
  }
  Flush(now_ns);
}

void Bus::Goodbye(std::string_view reason) {
  Flush(0);
  Tell({}, ipc::Goodbye{std::string(reason)});
  Flush(0);
}

std::optional<std::string> Bus::Take(SubscriberId id) {
  const auto found = subscribers_.find(id);
  if (found == subscribers_.end()) return std::nullopt;
  Subscriber& subscriber = found->second;
  if (subscriber.queue.empty()) {
    subscriber.called = false;
    return std::nullopt;
  }
  std::string message = std::move(subscriber.queue.front());
  subscriber.queue.pop_front();
  subscriber.queued_bytes -= message.size();
  return message;
}

}  // namespace smeltr::daemon
