#include "daemon/session_log.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <ctime>

#include "base/clock.h"
#include "session/append_file.h"
#include "session/open_lock.h"

namespace smeltr::daemon {
namespace {

constexpr uint64_t kStorageCheckNs = 250'000'000;

std::string Rfc3339(uint64_t unix_ns) {
  const auto seconds = static_cast<time_t>(unix_ns / kNsPerSecond);
  tm utc{};
  ::gmtime_r(&seconds, &utc);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", utc.tm_year + 1900, utc.tm_mon + 1,
                     utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, unix_ns / 1'000'000 % 1000);
}

// Of the newest change of the session's event files; 0 when it cannot be told.
uint64_t LastChangeNs(const std::filesystem::path& directory) {
  uint64_t newest_ns = 0;
  for (const uint32_t number : session::ListSegments(directory)) {
    std::error_code error;
    const auto changed = std::filesystem::last_write_time(directory / session::SegmentName(number), error);
    if (error) continue;
    const auto system = std::chrono::file_clock::to_sys(changed).time_since_epoch();
    const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(system).count();
    newest_ns = std::max(newest_ns, static_cast<uint64_t>(ns));
  }
  return newest_ns;
}

}  // namespace

SessionLog::SessionLog(session::StoredSession session, const LogContext& context, const LogOptions& options)
    : session_(std::move(session)), context_(&context), options_(options) {
  if (auto lock = session::LockOpen(directory()); lock.has_value()) {
    lock_ = std::move(*lock);
  } else {
    // Only what is shown of it suffers.
    Log(LogLevel::kWarning, std::string(lock.error().text()));
  }
}

Result<SessionLog> SessionLog::Create(const std::filesystem::path& sessions_directory,
                                      session::Metadata metadata, const LogContext& context,
                                      const LogOptions& options) {
  SMELTR_ASSIGN_OR_RETURN(session::StoredSession stored,
                          session::CreateSession(sessions_directory, std::move(metadata)));
  SessionLog log(std::move(stored), context, options);
  auto writer = session::SegmentedWriter::Create(log.directory(), log.WriterOptions());
  if (!writer.has_value()) {
    log.Discard();
    return std::unexpected(writer.error());
  }
  log.writer_ = std::move(*writer);
  // Else a power loss could take the whole directory, whatever of its content is safe.
  context.sync.Post([sessions_directory] { return session::SyncDirectory(sessions_directory); });
  context.router.bus().Opened({log.metadata().session_id, session::ShortId(log.metadata()),
                               std::string(session::Name(log.metadata().kind)), log.metadata().name});
  log.AppendOwn(event::Api::kNone, 0, event::SessionStarted{WallNowNs()});
  return log;
}

SessionLog SessionLog::Adopt(session::StoredSession session, const LogContext& context,
                             const LogOptions& options) {
  SessionLog log(std::move(session), context, options);
  log.adopted_ = true;
  log.earlier_lost_ = log.metadata().storage_lost_count;
  log.earlier_trimmed_events_ = log.metadata().trimmed_event_count;
  log.earlier_trimmed_files_ = log.metadata().trimmed_files;
  return log;
}

session::SegmentedOptions SessionLog::WriterOptions() const {
  session::SegmentedOptions options;
  options.max_bytes = options_.max_bytes;
  options.writer.flush_after_ns = options_.flush_after_ns;
  options.writer.on_sealed = [router = &context_->router, id = metadata().session_id](
                                 const session::SealedChunk& chunk) { router->Sealed(id, chunk); };
  return options;
}

// Only an adopted session lacks its writer.
bool SessionLog::EnsureWriter() {
  if (writer_.has_value()) return true;
  if (writer_failed_) return false;
  const uint64_t last_ns = LastChangeNs(directory());
  auto writer = session::SegmentedWriter::Continue(directory(), WriterOptions());
  if (!writer.has_value()) {
    Log(LogLevel::kError, fmt::format("session {}: {}", session::ShortId(metadata()), writer.error().text()));
    writer_failed_ = true;
    return false;
  }
  writer_ = std::move(*writer);
  first_seq_ = writer_->next_seq();
  const uint64_t now_ns = WallNowNs();
  AppendOwn(event::Api::kNone, 0,
            event::SessionResumed{last_ns != 0 && last_ns < now_ns ? now_ns - last_ns : 0, 0});
  return true;
}

void SessionLog::Append(const event::Event& event) {
  if (!EnsureWriter()) {
    ++unwritable_count_;
    return;
  }
  last_seq_ = writer_->next_seq();
  writer_->Append(event);
  context_->router.Appended(metadata().session_id, event, last_seq_);
}

uint64_t SessionLog::lost_count() {
  return unwritable_count_ + (writer_.has_value() ? writer_->totals().lost_count : 0);
}

void SessionLog::Flush() {
  if (!writer_.has_value()) return;
  // What the disk refuses is counted, and told by NoteStorage().
  static_cast<void>(writer_->Flush());
}

void SessionLog::FlushIfDue(uint64_t now_ns) {
  if (!writer_.has_value()) return;
  writer_->FlushIfDue(now_ns);
  // Asking for the figures costs more than an idle flush.
  if (now_ns < next_storage_check_ns_) return;
  next_storage_check_ns_ = now_ns + kStorageCheckNs;
  NoteStorage(now_ns);
  SyncIfDue(now_ns);
}

void SessionLog::SyncIfDue(uint64_t now_ns) {
  if (now_ns < next_sync_ns_ || synced_seq_ == last_seq_) return;
  const bool first = next_sync_ns_ == 0;
  next_sync_ns_ = now_ns + options_.sync_after_ns;
  if (first) return;
  synced_seq_ = last_seq_;
  context_->sync.Post(writer_->SyncTask());
}

void SessionLog::NoteStorage(uint64_t now_ns) {
  const session::WriterStats& stats = writer_->totals();
  const uint64_t lost = unwritable_count_ + stats.lost_count;
  if (lost != seen_lost_) {
    seen_lost_ = lost;
    bytes_at_loss_ = stats.file_bytes;
    throttle_.Log(LogLevel::kWarning, "lost",
                  fmt::format("session {}: the disk refuses events, {} lost so far",
                              session::ShortId(metadata()), lost),
                  now_ns);
  } else if (lost != reported_lost_ && stats.file_bytes > bytes_at_loss_) {
    AppendOwn(event::Api::kNone, 0, event::StorageDegraded{"no space on disk", lost - reported_lost_});
    reported_lost_ = lost;
  }
}

void SessionLog::SaveMetadata() {
  session::Metadata& metadata = session_.metadata;
  metadata.storage_lost_count = earlier_lost_ + lost_count();
  if (writer_.has_value()) {
    const session::WriterStats& stats = writer_->totals();
    metadata.trimmed_event_count = earlier_trimmed_events_ + stats.trimmed_event_count;
    metadata.trimmed_files = earlier_trimmed_files_ + stats.trimmed_file_count;
  }
  auto saved = session::WriteMetadata(directory(), metadata);
  if (!saved.has_value() && saved.error().code() == ErrorCode::kNoSpace) {
    context_->reserve.Release();
    saved = session::WriteMetadata(directory(), metadata);
    // Before events take the rest: this was perhaps not the last time.
    context_->reserve.Hold();
  }
  if (!saved.has_value()) {
    Log(LogLevel::kError, fmt::format("session {}: {}", session::ShortId(metadata), saved.error().text()));
  }
}

void SessionLog::CompleteFile() {
  if (!writer_.has_value()) return;
  if (const auto closed = writer_->Close(); !closed.has_value()) {
    Log(LogLevel::kError, fmt::format("session {}: {}", session::ShortId(metadata()), closed.error().text()));
  }
  for (const auto& [kind, count] : writer_->stats().counts_by_kind) metadata().event_counts[kind] += count;
  const std::string& id = metadata().session_id;
  context_->router.recorder().Forget(id, context_->router.now_ns());
  context_->router.bus().Closed({id, metadata().end_reason, last_seq_});
}

void SessionLog::Close(std::string_view end_reason) {
  metadata().ended_rfc3339 = EndTime();
  metadata().end_reason = end_reason;
  if (writer_.has_value()) {
    AppendOwn(event::Api::kNone, 0, event::SessionEnded{WallNowNs(), end_reason});
  }
  CompleteFile();
}

void SessionLog::Detach(std::string_view reason) {
  metadata().end_reason = reason;
  CompleteFile();
}

// An adopted session to which nothing was added ended when its daemon did, others with their last process if
// that was seen: reports of its death were waited for.
std::string SessionLog::EndTime() const {
  const uint64_t now_ns = MonotonicNowNs();
  if (metadata().end_mono_ns != 0 && metadata().end_mono_ns <= now_ns) {
    return Rfc3339(WallNowNs() - (now_ns - metadata().end_mono_ns));
  }
  const uint64_t last_ns = writer_.has_value() ? 0 : LastChangeNs(directory());
  return Rfc3339(last_ns != 0 ? last_ns : WallNowNs());
}

void SessionLog::Discard() {
  writer_.reset();
  std::error_code error;
  std::filesystem::remove_all(directory(), error);
  if (error) {
    Log(LogLevel::kWarning, fmt::format("cannot remove {}: {}", directory().native(), error.message()));
  }
}

}  // namespace smeltr::daemon
