#include "daemon/flight_recorder.h"

#include <algorithm>
#include <array>

#include "session/chunk_header.h"

namespace smeltr::daemon {
namespace {

// What is kept apart may take so much of the limit: one session's, and all of them together.
constexpr size_t kKeptShareOfSession = 16;
constexpr size_t kKeptShare = 2;

// Kinds that later events refer to and that come once.
constexpr std::array kLasting = {event::Kind::kDeviceInfo, event::Kind::kQueueInfo,
                                 event::Kind::kPythonSidecarHello, event::Kind::kModelLoad};

bool HoldsLastingKinds(std::span<const std::byte> chunk) {
  const auto fixed = chunk.first(std::min(chunk.size(), session::kChunkFixedBytes));
  const auto header_bytes = session::ClaimedHeaderBytes(fixed);
  if (!header_bytes || *header_bytes > chunk.size()) return false;
  const auto header = session::DecodeChunkHeader(chunk.first(*header_bytes));
  return header && std::ranges::any_of(header->blocks, [](const session::BlockEntry& block) {
           return std::ranges::find(kLasting, static_cast<event::Kind>(block.kind_number)) != kLasting.end();
         });
}

bool Overlaps(const RecordedChunk& chunk, uint64_t begin_ns, uint64_t end_ns) {
  const bool by_events = chunk.max_ts_ns >= begin_ns && chunk.min_ts_ns <= end_ns;
  return by_events || (chunk.noted_ns >= begin_ns && chunk.noted_ns <= end_ns);
}

}  // namespace

bool FlightRecorder::KeepsApart(const History& history, const session::SealedChunk& chunk) const {
  const size_t bytes = chunk.bytes.size();
  if (history.kept_bytes + bytes > limit_bytes_ / kKeptShareOfSession) return false;
  if (kept_bytes_ + bytes > limit_bytes_ / kKeptShare) return false;
  const bool first = history.kept.empty() && history.chunks.empty();
  return first || HoldsLastingKinds(chunk.bytes);
}

void FlightRecorder::Note(std::string_view session_id, const session::SealedChunk& chunk, uint64_t now_ns) {
  auto found = histories_.find(session_id);
  if (found == histories_.end()) found = histories_.try_emplace(std::string(session_id)).first;
  History& history = found->second;
  RecordedChunk recorded{
      .bytes = std::make_shared<const std::vector<std::byte>>(chunk.bytes.begin(), chunk.bytes.end()),
      .min_ts_ns = chunk.min_ts_ns,
      .max_ts_ns = chunk.max_ts_ns,
      .event_count = chunk.event_count,
      .noted_ns = now_ns};
  const size_t bytes = chunk.bytes.size();
  bytes_ += bytes;
  if (KeepsApart(history, chunk)) {
    history.kept.push_back(std::move(recorded));
    history.kept_bytes += bytes;
    kept_bytes_ += bytes;
  } else {
    history.chunks.push_back(std::move(recorded));
    history.chunk_bytes += bytes;
  }
  Expire(now_ns);
  EvictForLimit();
}

void FlightRecorder::Forget(std::string_view session_id, uint64_t now_ns) {
  const auto found = histories_.find(session_id);
  if (found != histories_.end()) found->second.closed_ns = std::max<uint64_t>(now_ns, 1);
}

void FlightRecorder::DropOldest(History& history) {
  const size_t bytes = history.chunks.front().bytes->size();
  history.chunk_bytes -= bytes;
  bytes_ -= bytes;
  history.chunks.pop_front();
}

void FlightRecorder::Expire(uint64_t now_ns) {
  const uint64_t oldest_ns = now_ns > window_ns_ ? now_ns - window_ns_ : 0;
  for (auto found = histories_.begin(); found != histories_.end();) {
    History& history = found->second;
    while (!history.chunks.empty() && history.chunks.front().noted_ns < oldest_ns) DropOldest(history);
    while (!history.evicted.empty() && history.evicted.front().noted_ns < oldest_ns) {
      history.evicted.pop_front();
    }
    if (history.closed_ns != 0 && history.closed_ns < oldest_ns) {
      bytes_ -= history.kept_bytes + history.chunk_bytes;
      kept_bytes_ -= history.kept_bytes;
      found = histories_.erase(found);
    } else {
      ++found;
    }
  }
}

void FlightRecorder::EvictForLimit() {
  while (bytes_ > limit_bytes_) {
    const auto largest = std::ranges::max_element(
        histories_, {}, [](const Histories::value_type& entry) { return entry.second.chunk_bytes; });
    History& history = largest->second;
    // What is kept apart is within a share of the limit: there is something else to drop.
    if (history.chunks.empty()) return;
    history.evicted.push_back({history.chunks.front().noted_ns, history.chunks.front().event_count});
    DropOldest(history);
  }
}

std::vector<RecordedChunk> FlightRecorder::Snapshot(std::string_view session_id, uint64_t begin_ns,
                                                    uint64_t end_ns) const {
  std::vector<RecordedChunk> chunks;
  const auto found = histories_.find(session_id);
  if (found == histories_.end()) return chunks;
  chunks = found->second.kept;
  for (const RecordedChunk& chunk : found->second.chunks) {
    if (Overlaps(chunk, begin_ns, end_ns)) chunks.push_back(chunk);
  }
  // One kept apart may be younger than others.
  std::ranges::stable_sort(chunks, {}, &RecordedChunk::noted_ns);
  return chunks;
}

uint64_t FlightRecorder::evicted_count(std::string_view session_id) const {
  uint64_t count = 0;
  const auto found = histories_.find(session_id);
  if (found == histories_.end()) return count;
  for (const Evicted& evicted : found->second.evicted) count += evicted.event_count;
  return count;
}

uint64_t FlightRecorder::span_ns(uint64_t now_ns) const {
  uint64_t oldest_ns = now_ns;
  for (const auto& [id, history] : histories_) {
    if (!history.chunks.empty()) oldest_ns = std::min(oldest_ns, history.chunks.front().noted_ns);
  }
  return now_ns - oldest_ns;
}

}  // namespace smeltr::daemon
