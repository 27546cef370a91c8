#include "session/recover.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "event/names.h"
#include "session/identity.h"
#include "session/reader.h"
#include "session/segmented_writer.h"
#include "util/log.h"
#include "util/process.h"

namespace smeltr::session {
namespace {

// Directories that CreateSession made, whatever stands in front of instant and id.
bool HasSessionName(const std::filesystem::path& directory) {
  const std::string name = directory.filename().native();
  return !InstantOfDirectoryName(name).empty();
}

bool CanBeMadeAnew(const StoredSession& session) {
  std::error_code error;
  if (session.metadata_readable || !HasSessionName(session.directory) ||
      std::filesystem::is_symlink(session.directory, error)) {
    return false;
  }
  const auto metadata = ReadMetadata(session.directory);
  if (metadata.has_value()) return false;
  return metadata.error().code() == ErrorCode::kCorrupt || metadata.error().code() == ErrorCode::kNotFound;
}

// Of the file's last change; 0 when it cannot be told.
uint64_t LastChangeNs(const std::filesystem::path& file) {
  std::error_code error;
  const auto changed = std::filesystem::last_write_time(file, error);
  if (error) return 0;
  const auto system = std::chrono::file_clock::to_sys(changed).time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::nanoseconds>(system).count());
}

// Gathers what events tell of their session.
class Facts {
 public:
  void Read(const Reader& reader) {
    for (const KindCount& one : reader.summary().counts) {
      metadata_.event_counts[std::string(event::KindName(one.api, one.kind).view())] += one.count;
      tells_of_programs_ |= one.api != event::Api::kNone;
    }
    reader.ForEachOf<event::SessionStarted>(
        [&](const event::Envelope& envelope, const event::SessionStarted& fields) {
          if (metadata_.start_mono_ns != 0 && metadata_.start_mono_ns <= envelope.ts_ns) return;
          metadata_.start_mono_ns = envelope.ts_ns;
          metadata_.started_rfc3339 = FormatUtc(fields.wall_unix_ns);
        });
    reader.ForEachOf<event::SessionEnded>(
        [&](const event::Envelope&, const event::SessionEnded& fields) { ended_ns_ = fields.wall_unix_ns; });
    reader.ForEachOf<event::HookHello>([&](const event::Envelope& envelope, const event::HookHello& fields) {
      metadata_.hook_state = "injected";
      NoteProcess(envelope, fields.start_time_ticks, fields.executable);
    });
    reader.ForEachOf<event::ProcessSeen>(
        [&](const event::Envelope& envelope, const event::ProcessSeen& fields) {
          NoteProcess(envelope, fields.start_time_ticks, fields.executable);
        });
    first_ts_ns_ =
        std::min(first_ts_ns_, reader.summary().event_count == 0 ? first_ts_ns_ : reader.summary().min_ts_ns);
  }

  bool tells_of_programs() const { return tells_of_programs_; }
  uint64_t ended_ns() const { return ended_ns_; }
  Metadata Take() {
    if (metadata_.start_mono_ns == 0 && first_ts_ns_ != UINT64_MAX) metadata_.start_mono_ns = first_ts_ns_;
    return std::move(metadata_);
  }

 private:
  // The first one is the recorded command, as far as anybody can tell.
  void NoteProcess(const event::Envelope& envelope, uint64_t start_time_ticks, event::Text executable) {
    tells_of_programs_ = true;
    if (envelope.pid == 0 || envelope.ts_ns >= root_seen_ns_) return;
    root_seen_ns_ = envelope.ts_ns;
    metadata_.root_pid = envelope.pid;
    metadata_.root_start_time_ticks = start_time_ticks;
    metadata_.argv.clear();
    if (!executable.view.empty()) metadata_.argv.emplace_back(executable.view);
  }

  Metadata metadata_;
  uint64_t ended_ns_ = 0;
  uint64_t root_seen_ns_ = UINT64_MAX;
  uint64_t first_ts_ns_ = UINT64_MAX;
  bool tells_of_programs_ = false;
};

std::optional<std::string> KnownId(std::string_view short_id, std::span<const std::string> known_ids) {
  const auto matches = [&](const std::string& id) { return id.starts_with(short_id); };
  if (std::ranges::count_if(known_ids, matches) != 1) return std::nullopt;
  return *std::ranges::find_if(known_ids, matches);
}

Result<Metadata> Rebuild(const StoredSession& session, std::span<const std::string> known_ids) {
  Facts facts;
  std::filesystem::path newest;
  for (const uint32_t number : ListSegments(session.directory)) {
    newest = session.directory / SegmentName(number);
    if (const auto reader = Reader::Open(newest)) facts.Read(*reader);
  }
  const bool tells_of_programs = facts.tells_of_programs();
  const uint64_t ended_ns = facts.ended_ns() != 0 ? facts.ended_ns() : LastChangeNs(newest);
  Metadata metadata = facts.Take();
  metadata.kind = session.metadata.kind;
  if (metadata.kind == SessionKind::kScoped && !tells_of_programs) metadata.kind = SessionKind::kAmbient;
  if (metadata.started_rfc3339.empty()) {
    metadata.started_rfc3339 = InstantOfDirectoryName(session.directory.filename().native());
  }
  const std::string short_id = session.short_id();
  if (const auto known = KnownId(short_id, known_ids)) {
    // Its rings are of this boot, so it may be gone on with.
    metadata.kind = SessionKind::kScoped;
    metadata.session_id = *known;
    metadata.boot_id = BootId();
    metadata.host = HostName();
    metadata.event_counts.clear();  // Counted at its end.
    return metadata;
  }
  SMELTR_ASSIGN_OR_RETURN(const std::string uuid, MakeUuid());
  metadata.session_id = short_id + uuid.substr(short_id.size());
  metadata.ended_rfc3339 = FormatUtc(ended_ns != 0 ? ended_ns : WallNowNs());
  metadata.end_reason = "recovered";
  return metadata;
}

// The first bad file tells most: a later one would be of a recovery.
Result<void> SetAside(const std::filesystem::path& directory) {
  const std::filesystem::path file = directory / kMetadataFile;
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) return {};
  const std::filesystem::path bad = directory / kBadMetadataFile;
  if (std::filesystem::exists(std::filesystem::symlink_status(bad, error))) {
    std::filesystem::remove(file, error);
  } else {
    std::filesystem::rename(file, bad, error);
  }
  if (error) return std::unexpected(SystemError("set aside", file, error.value()));
  return {};
}

Result<StoredSession> RecoverOne(StoredSession session, std::span<const std::string> known_ids) {
  SMELTR_ASSIGN_OR_RETURN(session.metadata, Rebuild(session, known_ids));
  SMELTR_TRY(SetAside(session.directory));
  SMELTR_TRY(WriteMetadata(session.directory, session.metadata));
  session.metadata_readable = true;
  return session;
}

}  // namespace

Result<Metadata> RebuildMetadata(const std::filesystem::path& directory) {
  StoredSession session{.directory = directory, .metadata = {}};
  if (directory.filename().native().starts_with("post-mortem-")) {
    session.metadata.kind = SessionKind::kPostMortem;
  }
  return Rebuild(session, {});
}

uint64_t LastEventsChangeNs(const std::filesystem::path& directory) {
  uint64_t newest_ns = 0;
  for (const uint32_t number : ListSegments(directory)) {
    newest_ns = std::max(newest_ns, LastChangeNs(directory / SegmentName(number)));
  }
  return newest_ns;
}

Result<std::vector<StoredSession>> RecoverMetadata(const std::filesystem::path& sessions_directory,
                                                   std::span<const std::string> known_ids) {
  SMELTR_ASSIGN_OR_RETURN(std::vector<StoredSession> sessions, ListSessions(sessions_directory));
  std::vector<StoredSession> recovered;
  for (StoredSession& session : sessions) {
    if (!CanBeMadeAnew(session)) continue;
    const std::string name = session.directory.filename().native();
    Result<StoredSession> whole = RecoverOne(std::move(session), known_ids);
    if (whole.has_value()) {
      Log(LogLevel::kWarning,
          fmt::format("{}: its metadata was damaged and is made anew from its events", name));
      recovered.push_back(std::move(*whole));
    } else {
      Log(LogLevel::kError,
          fmt::format("{}: its metadata cannot be made anew: {}", name, whole.error().text()));
    }
  }
  return recovered;
}

}  // namespace smeltr::session
