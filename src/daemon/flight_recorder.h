// The last seconds of every session, in memory: the sealed chunks of their files, compressed, so that a
// post-mortem is a copy. Old chunks go by age and by the limit on all of them, fairly: the session that holds
// most loses its oldest first. What later events refer to (the first chunk, those that name devices, queues
// and models) is kept apart while the session is open. Not thread-safe; what Snapshot() gives may be read on
// any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "session/writer.h"

namespace smeltr::daemon {

struct RecordedChunk {
  std::shared_ptr<const std::vector<std::byte>> bytes;
  uint64_t min_ts_ns = 0;
  uint64_t max_ts_ns = 0;
  uint64_t event_count = 0;
  uint64_t noted_ns = 0;  // When it came: event times are a stranger's.
};

class FlightRecorder {
 public:
  FlightRecorder(uint64_t window_ns, size_t limit_bytes) : window_ns_(window_ns), limit_bytes_(limit_bytes) {}

  // Copies the chunk. Called by the session's writer (session::WriterOptions::on_sealed).
  void Note(std::string_view session_id, const session::SealedChunk& chunk, uint64_t now_ns);
  // The session is closed. Its history stays until it ages out.
  void Forget(std::string_view session_id, uint64_t now_ns);
  // Lets go of what is older than the window; Note() does so too.
  void Expire(uint64_t now_ns);

  // The chunks that hold, or were noted at, any time from `begin_ns` to `end_ns`, and those kept apart; in
  // the order they came.
  std::vector<RecordedChunk> Snapshot(std::string_view session_id, uint64_t begin_ns, uint64_t end_ns) const;
  // Events of the session that are not older than the window, but had to go for the limit.
  uint64_t evicted_count(std::string_view session_id) const;

  uint64_t window_ns() const { return window_ns_; }
  size_t bytes() const { return bytes_; }
  // How far back the whole goes.
  uint64_t span_ns(uint64_t now_ns) const;

 private:
  struct Evicted {
    uint64_t noted_ns;
    uint64_t event_count;
  };
  struct History {
    std::deque<RecordedChunk> chunks;
    std::vector<RecordedChunk> kept;  // Apart, whatever their age.
    std::deque<Evicted> evicted;      // Within the window.
    size_t chunk_bytes = 0;
    size_t kept_bytes = 0;
    uint64_t closed_ns = 0;  // 0 = open.
  };
  using Histories = std::map<std::string, History, std::less<>>;
  bool KeepsApart(const History& history, const session::SealedChunk& chunk) const;
  void DropOldest(History& history);
  void EvictForLimit();

  uint64_t window_ns_;
  size_t limit_bytes_;
  size_t bytes_ = 0;
  size_t kept_bytes_ = 0;  // Of bytes_.
  Histories histories_;    // By session id.
};

}  // namespace smeltr::daemon
