#include "daemon/session_log.h"

#include <fmt/format.h>

#include <chrono>
#include <ctime>

#include "base/clock.h"

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

// Of the file's last change; 0 when it cannot be told.
uint64_t LastChangeNs(const std::filesystem::path& file) {
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(file, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(changed).time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(system).count());
}

}  // namespace

Result<SessionLog> SessionLog::Create(const std::filesystem::path& sessions_directory,
                                      session::Metadata metadata, DiskReserve& reserve) {
  SMELTR_ASSIGN_OR_RETURN(session::StoredSession stored,
                          session::CreateSession(sessions_directory, std::move(metadata)));
  SessionLog log(std::move(stored), reserve);
  auto writer = session::Writer::Create(log.directory() / session::kEventsFile, {});
  if (!writer.has_value()) {
    log.Discard();
    return std::unexpected(writer.error());
  }
  log.writer_ = std::move(*writer);
  log.AppendOwn(event::Api::kNone, 0, event::SessionStarted{WallNowNs()});
  return log;
}

SessionLog SessionLog::Adopt(session::StoredSession session, DiskReserve& reserve) {
  SessionLog log(std::move(session), reserve);
  log.adopted_ = true;
  return log;
}

// Only an adopted session lacks its writer.
bool SessionLog::EnsureWriter() {
  if (writer_.has_value()) return true;
  if (writer_failed_) return false;
  Result<session::Writer> writer = Fail(ErrorCode::kAlreadyExists, "");
  for (int number = 1; !writer.has_value() && writer.error().code() == ErrorCode::kAlreadyExists; ++number) {
    writer = session::Writer::Create(directory() / fmt::format("events-{}.smlt", number), {});
  }
  if (!writer.has_value()) {
    Log(LogLevel::kError, fmt::format("session {}: {}", session::ShortId(metadata()), writer.error().text()));
    writer_failed_ = true;
    return false;
  }
  writer_ = std::move(*writer);
  const uint64_t last_ns = LastChangeNs(directory() / session::kEventsFile);
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
  writer_->Append(event);
}

uint64_t SessionLog::lost_count() const {
  return unwritable_count_ + (writer_.has_value() ? writer_->stats().lost_count : 0);
}

void SessionLog::FlushIfDue(uint64_t now_ns) {
  if (!writer_.has_value()) return;
  writer_->FlushIfDue(now_ns);
  // Asking for the figures costs more than an idle flush.
  if (now_ns < next_storage_check_ns_) return;
  next_storage_check_ns_ = now_ns + kStorageCheckNs;
  NoteStorage(now_ns);
}

void SessionLog::NoteStorage(uint64_t now_ns) {
  const session::WriterStats& stats = writer_->stats();
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
  metadata().storage_lost_count = lost_count();
  auto saved = session::WriteMetadata(directory(), metadata());
  if (!saved.has_value() && saved.error().code() == ErrorCode::kNoSpace) {
    reserve_->Release();
    saved = session::WriteMetadata(directory(), metadata());
    // Before events take the rest: this was perhaps not the last time.
    reserve_->Hold();
  }
  if (!saved.has_value()) {
    Log(LogLevel::kError, fmt::format("session {}: {}", session::ShortId(metadata()), saved.error().text()));
  }
}

void SessionLog::Close(std::string_view end_reason) {
  metadata().ended_rfc3339 = EndTime();
  metadata().end_reason = end_reason;
  if (writer_.has_value()) {
    AppendOwn(event::Api::kNone, 0, event::SessionEnded{WallNowNs(), end_reason});
    if (const auto closed = writer_->Close(); !closed.has_value()) {
      Log(LogLevel::kError,
          fmt::format("session {}: {}", session::ShortId(metadata()), closed.error().text()));
    }
    for (const auto& [kind, count] : writer_->stats().counts_by_kind) metadata().event_counts[kind] += count;
  }
}

// An adopted session to which nothing was added ended when its daemon did.
std::string SessionLog::EndTime() const {
  const uint64_t last_ns = writer_.has_value() ? 0 : LastChangeNs(directory() / session::kEventsFile);
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
