// The events and metadata of one open session, whatever the disk does, and everybody who hears of them.
// Losses are counted, told once a minute, and marked in the session by StorageDegraded events when there
// is space again. While it is open its directory is locked (session::IsOpen). Not thread-safe.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/fd.h"
#include "base/result.h"
#include "daemon/disk_reserve.h"
#include "daemon/router.h"
#include "daemon/sync_thread.h"
#include "event/event.h"
#include "session/segmented_writer.h"
#include "session/store.h"
#include "util/log.h"

namespace smeltr::daemon {

// What all logs share. It and what it refers to outlive them.
struct LogContext {
  DiskReserve& reserve;
  Router& router;
  SyncThread& sync;
};

struct LogOptions {
  uint64_t max_bytes = 0;                 // 0: no limit; else the newest events are kept.
  uint64_t flush_after_ns = 250'000'000;  // The promise for recordings is 500 ms.
  uint64_t sync_after_ns = 5 * kNsPerSecond;
};

class SessionLog {
 public:
  // A new session of `sessions_directory`.
  static Result<SessionLog> Create(const std::filesystem::path& sessions_directory,
                                   session::Metadata metadata, const LogContext& context,
                                   const LogOptions& options = {});
  // Goes on with one whose daemon died: what comes now goes to a file of its own, made when there is
  // something to write; the earlier files are never touched.
  static SessionLog Adopt(session::StoredSession session, const LogContext& context,
                          const LogOptions& options = {});

  session::Metadata& metadata() { return session_.metadata; }
  const session::Metadata& metadata() const { return session_.metadata; }
  const std::filesystem::path& directory() const { return session_.directory; }
  bool adopted() const { return adopted_; }
  uint64_t event_count() const { return last_seq_ == 0 ? 0 : last_seq_ - first_seq_ + 1; }
  uint64_t last_seq() const { return last_seq_; }
  uint64_t file_bytes() const { return writer_.has_value() ? writer_->file_bytes() : 0; }

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
  // Everything appended so far into a sealed chunk, whatever its age.
  void Flush();
  // In a crash's signal handler: what can be saved of the rest.
  void FlushInCrash() {
    if (writer_.has_value()) writer_->FlushIfIdle();
  }
  // Writes the metadata as it is now, on a full disk at the cost of the reserve; a failure is logged.
  void SaveMetadata();
  // Completes the events file; the metadata, when saved next, says that and why it ended. Call once, as the
  // last thing, this or Detach().
  void Close(std::string_view end_reason);
  // Completes the events file but not the session: the next daemon goes on with it.
  void Detach(std::string_view reason);
  // Nobody records into it any more, and everybody may know. After the last SaveMetadata().
  void Unlock() { lock_.Reset(); }
  // Removes the session: it never was one.
  void Discard();

  // Of this daemon's appends.
  uint64_t lost_count();
  // The disk refuses events just now.
  bool paused() { return lost_count() != reported_lost_; }

 private:
  SessionLog(session::StoredSession session, const LogContext& context, const LogOptions& options);
  void NoteStorage(uint64_t now_ns);
  bool EnsureWriter();
  session::SegmentedOptions WriterOptions() const;
  void CompleteFile();
  void SyncIfDue(uint64_t now_ns);
  std::string EndTime() const;

  session::StoredSession session_;
  const LogContext* context_;
  LogOptions options_;
  Fd lock_;  // The session's directory.
  std::optional<session::SegmentedWriter> writer_;
  bool adopted_ = false;
  bool writer_failed_ = false;
  uint64_t first_seq_ = 1;
  uint64_t last_seq_ = 0;
  uint64_t synced_seq_ = 0;
  uint64_t unwritable_count_ = 0;  // Lost because not even the file could be made.
  uint64_t earlier_lost_ = 0;      // By the daemons before this one.
  uint64_t earlier_trimmed_events_ = 0;
  uint64_t earlier_trimmed_files_ = 0;
  uint64_t reported_lost_ = 0;  // Of lost_count(), in StorageDegraded events already.
  uint64_t bytes_at_loss_ = 0;
  uint64_t seen_lost_ = 0;
  uint64_t next_storage_check_ns_ = 0;
  uint64_t next_sync_ns_ = 0;
  LogThrottle throttle_{60 * kNsPerSecond};
};

}  // namespace smeltr::daemon
