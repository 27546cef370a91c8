// The events and metadata of one open session, whatever the disk does.
// Losses are counted, told once a minute, and marked in the session by StorageDegraded events when there
// is space again. Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/disk_reserve.h"
#include "event/event.h"
#include "session/store.h"
#include "session/writer.h"
#include "util/log.h"

namespace smeltr::daemon {

class SessionLog {
 public:
  // A new session of `sessions_directory`. `reserve` outlives it.
  static Result<SessionLog> Create(const std::filesystem::path& sessions_directory,
                                   session::Metadata metadata, DiskReserve& reserve);
  // Goes on with one whose daemon died: what comes now goes to a file of its own, made when there is
  // something to write; the earlier file is never touched.
  static SessionLog Adopt(session::StoredSession session, DiskReserve& reserve);

  session::Metadata& metadata() { return session_.metadata; }
  const session::Metadata& metadata() const { return session_.metadata; }
  const std::filesystem::path& directory() const { return session_.directory; }
  bool adopted() const { return adopted_; }

  void Append(const event::Event& event);
  // An event of the daemon's own: now, in process `pid` (0 = none).
  template <typename E>
  void AppendOwn(event::Api api, uint32_t pid, const E& fields) {
    event::Event event;
    event.envelope.ts_ns = MonotonicNowNs();
    event.envelope.pid = pid;
    event.envelope.api = api;
    event.payload = fields;
    Append(event);
  }
  void FlushIfDue(uint64_t now_ns);
  // Writes the metadata as it is now, on a full disk at the cost of the reserve; a failure is logged.
  void SaveMetadata();
  // Completes the events file; the metadata, when saved next, says that and why it ended. Call once.
  void Close(std::string_view end_reason);
  // Removes the session: it never was one.
  void Discard();

  uint64_t lost_count() const;

 private:
  SessionLog(session::StoredSession session, DiskReserve& reserve)
      : session_(std::move(session)), reserve_(&reserve) {}
  void NoteStorage(uint64_t now_ns);
  bool EnsureWriter();
  std::string EndTime() const;

  session::StoredSession session_;
  DiskReserve* reserve_;
  std::optional<session::Writer> writer_;
  bool adopted_ = false;
  bool writer_failed_ = false;
  uint64_t unwritable_count_ = 0;  // Lost because not even the file could be made.
  uint64_t reported_lost_ = 0;     // Of lost_count(), in StorageDegraded events already.
  uint64_t bytes_at_loss_ = 0;
  uint64_t seen_lost_ = 0;
  uint64_t next_storage_check_ns_ = 0;
  LogThrottle throttle_{60 * kNsPerSecond};
};

}  // namespace smeltr::daemon
