#include "ipc/stream.h"

#include <cstring>
#include <utility>

namespace smeltr::ipc {

std::string BatchHeader(std::string_view session_id) {
  std::string header(1, kBatchTag);
  header += session_id.substr(0, kSessionIdBytes);
  header.resize(kBatchHeaderBytes, '-');
  return header;
}

Result<void> EventBatch::ForEach(const std::function<void(const event::Event&)>& visit) const {
  std::vector<std::byte> storage(event::kMaxOwnedBytes);
  event::DecodeArena arena(storage);
  std::span<const std::byte> rest = events_;
  while (!rest.empty()) {
    arena.Reset();
    SMELTR_ASSIGN_OR_RETURN(const event::Event event, event::TakeOwned(rest, arena));
    visit(event);
  }
  return {};
}

Result<StreamItem> DecodeStreamItem(std::string_view message) {
  if (message.empty()) return Fail(ErrorCode::kCorrupt, "an empty message");
  if (message.front() != kBatchTag) {
    SMELTR_ASSIGN_OR_RETURN(Notice notice, DecodeNotice(message));
    return StreamItem(std::move(notice));
  }
  if (message.size() < kBatchHeaderBytes) return Fail(ErrorCode::kCorrupt, "a batch without its session");
  std::string session_id(message.substr(1, kSessionIdBytes));
  const std::string_view events = message.substr(kBatchHeaderBytes);
  std::vector<std::byte> bytes(events.size());
  if (!events.empty()) std::memcpy(bytes.data(), events.data(), events.size());
  return StreamItem(std::in_place_type<EventBatch>, std::move(session_id), std::move(bytes));
}

}  // namespace smeltr::ipc
