// What a subscriber receives, in the framing of connection.h: batches of events as bytes, and notices as
// JSON. The first byte tells: '{' is a notice, kBatchTag a batch.
//
// A batch: kBatchTag, 36 characters of session id, then events one after the other (event/owned.h), in
// rising seq of that session.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"
#include "event/owned.h"
#include "ipc/message.h"

namespace smeltr::ipc {

inline constexpr char kBatchTag = '\x01';
inline constexpr int kHeartbeatMs = 5000;
inline constexpr size_t kSessionIdBytes = 36;
inline constexpr size_t kBatchHeaderBytes = 1 + kSessionIdBytes;

// The bytes before a batch's events.
std::string BatchHeader(std::string_view session_id);

class EventBatch {
 public:
  EventBatch(std::string session_id, std::vector<std::byte> events)
      : session_id_(std::move(session_id)), events_(std::move(events)) {}

  const std::string& session_id() const { return session_id_; }
  // Texts and lists of an event are valid during the call. kCorrupt: what follows was not understood.
  Result<void> ForEach(const std::function<void(const event::Event&)>& visit) const;

 private:
  std::string session_id_;
  std::vector<std::byte> events_;
};

using StreamItem = std::variant<EventBatch, Notice>;

// One message of the stream.
Result<StreamItem> DecodeStreamItem(std::string_view message);

}  // namespace smeltr::ipc
