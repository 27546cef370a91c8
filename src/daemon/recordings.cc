#include "daemon/recordings.h"

#include <fmt/format.h>

#include <set>

#include "daemon/ring_base.h"
#include "session/identity.h"
#include "util/log.h"
#include "util/process.h"

namespace smeltr::daemon {
namespace {

constexpr size_t kMaxOpenRecordings = 256;

session::Metadata MakeMetadata(const ipc::Reserve& request, std::string name) {
  session::Metadata metadata;
  metadata.kind = session::SessionKind::kScoped;
  metadata.name = std::move(name);
  metadata.boot_id = BootId();
  metadata.host = HostName();
  metadata.argv = request.argv;
  metadata.cwd = request.cwd;
  metadata.scope_token = request.token;
  metadata.smeltr_version = SMELTR_VERSION;
  return metadata;
}

// A session's files may come from anywhere. One without an id, or elsewhere and only linked here, is not for
// this daemon to change.
bool IsUnfinished(const session::StoredSession& session) {
  std::error_code error;
  return session.metadata_readable && session.metadata.kind == session::SessionKind::kScoped &&
         session.metadata.ended_rfc3339.empty() && IsSessionId(session.metadata.session_id) &&
         !std::filesystem::is_symlink(session.directory, error);
}

// Whether it can be what an earlier daemon of this boot was recording, rather than a copy or a leftover.
bool MayHaveRings(const session::StoredSession& session) {
  const std::string name = session.directory.filename().native();
  return session.metadata.boot_id == BootId() && session::IsDirectoryName(name) &&
         name.ends_with("-" + session::ShortId(session.metadata));
}

}  // namespace

void Recordings::AdoptUnfinished() {
  auto sessions = session::ListSessions(paths_.sessions);
  if (!sessions.has_value()) {
    Log(LogLevel::kError, fmt::format("cannot look for unfinished sessions: {}", sessions.error().text()));
    return;
  }
  for (session::StoredSession& session : *sessions) {
    if (IsUnfinished(session)) Adopt(std::move(session));
  }
  RemoveStrayRings();
}

void Recordings::Adopt(session::StoredSession session) {
  const std::string id = session.metadata.session_id;
  if (!MayHaveRings(session) || open_.contains(id)) {
    Log(LogLevel::kInfo, fmt::format("{} was left open, by no smeltrd of this boot: completing it",
                                     session.directory.filename().native()));
    Recording::Adopt(std::move(session), {}, reserve_, MonotonicNowNs()).Close("recovered");
    return;
  }
  // Nothing is looked for where no real directory of ours is.
  std::filesystem::path rings;
  for (const std::filesystem::path& base : RingBaseCandidates(paths_)) {
    if (HasRingDirectory(base, id)) rings = base / id;
  }
  if (HasRingDirectory(ring_base_, id)) rings = ring_base_ / id;
  Log(LogLevel::kInfo, fmt::format("session {} was left open by an earlier smeltrd: taking it over",
                                   session::ShortId(session.metadata)));
  open_.try_emplace(
      id, Entry{Recording::Adopt(std::move(session), std::move(rings), reserve_, MonotonicNowNs())});
}

// Only this daemon, the holder of the home's lock, makes directories there.
void Recordings::RemoveStrayRings() {
  std::set<std::filesystem::path> used;
  for (const auto& [id, entry] : open_) used.insert(entry.recording.ring_directory());
  for (const std::filesystem::path& base : RingBaseCandidates(paths_)) {
    for (const std::string& id : ListRingDirectories(base)) {
      if (used.contains(base / id)) continue;
      Log(LogLevel::kInfo, fmt::format("removing {}: no session belongs to it", (base / id).native()));
      if (const auto removed = RemoveRingDirectory(base, id); !removed.has_value()) {
        Log(LogLevel::kWarning, std::string(removed.error().text()));
      }
    }
  }
}

Result<ipc::Reserved> Recordings::Reserve(const ipc::Reserve& request, ClientId client) {
  if (request.token.empty() || request.argv.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "Reserve needs a token and a command");
  }
  if (open_.size() >= kMaxOpenRecordings) {
    return Fail(ErrorCode::kUnavailable, fmt::format("{} recordings are open already", open_.size()));
  }
  for (const auto& [id, entry] : open_) {
    if (entry.recording.metadata().scope_token == request.token) {
      return Fail(ErrorCode::kAlreadyExists, "this token has a recording already");
    }
  }
  SMELTR_ASSIGN_OR_RETURN(std::string name, session::ValidateName(request.name));
  SMELTR_ASSIGN_OR_RETURN(
      Recording recording,
      Recording::Open(paths_.sessions, ring_base_, MakeMetadata(request, std::move(name)), reserve_));
  reserve_.Hold();
  ipc::Reserved reserved;
  reserved.session_id = recording.metadata().session_id;
  reserved.short_id = session::ShortId(recording.metadata());
  reserved.session_directory = recording.directory();
  reserved.ring_directory = recording.ring_directory();
  open_.try_emplace(reserved.session_id, Entry{std::move(recording), client});
  Log(LogLevel::kInfo, fmt::format("session {} reserved for {}", reserved.short_id, request.argv.front()));
  return reserved;
}

Result<Recordings::Map::iterator> Recordings::Find(std::string_view session_id) {
  const auto found = open_.find(session_id);
  if (found != open_.end()) return found;
  return Fail(ErrorCode::kNotFound, fmt::format("smeltrd has no open session {}", session_id.substr(0, 64)));
}

Result<void> Recordings::Attach(const ipc::Attach& request) {
  SMELTR_ASSIGN_OR_RETURN(const auto entry, Find(request.session_id));
  if (request.pid == 0) return Fail(ErrorCode::kInvalidArgument, "Attach needs a process");
  if (entry->second.recording.attached()) {
    return Fail(ErrorCode::kAlreadyExists, "this session has a process already");
  }
  entry->second.recording.Attach(request);
  return {};
}

Result<void> Recordings::Cancel(const ipc::Cancel& request) {
  SMELTR_ASSIGN_OR_RETURN(const auto entry, Find(request.session_id));
  entry->second.recording.Discard();
  open_.erase(entry);
  return {};
}

Result<void> Recordings::Finish(const ipc::Finish& request, uint64_t now_ns, FinishReply reply) {
  SMELTR_ASSIGN_OR_RETURN(const auto entry, Find(request.session_id));
  if (!entry->second.recording.attached()) {
    return Fail(ErrorCode::kInvalidArgument, "nothing was attached to this session");
  }
  if (entry->second.recording.finished()) {
    return Fail(ErrorCode::kAlreadyExists, "this session's process has ended already");
  }
  entry->second.recording.Finish(request, now_ns, std::move(reply));
  return {};
}

void Recordings::ClientLost(ClientId client) {
  for (auto entry = open_.begin(); entry != open_.end();) {
    Recording& recording = entry->second.recording;
    const bool affected = entry->second.client == client;
    if (affected) recording.ClientLost();
    // Its held process ends unrun when record does.
    if (affected && !recording.attached()) {
      recording.Discard();
      entry = open_.erase(entry);
    } else {
      ++entry;
    }
  }
}

Recordings::Progress Recordings::Poll(uint64_t now_ns) {
  Progress all;
  for (auto entry = open_.begin(); entry != open_.end();) {
    Recording& recording = entry->second.recording;
    const Recording::Progress one = recording.Poll(now_ns);
    all.busy |= one.busy;
    all.more |= one.more;
    if (one.done) {
      recording.Close(recording.EndReason());
      entry = open_.erase(entry);
    } else {
      ++entry;
    }
  }
  return all;
}

void Recordings::Shutdown(uint64_t deadline_ns) {
  uint64_t now_ns = MonotonicNowNs();
  while (now_ns < deadline_ns && Poll(now_ns).more) now_ns = MonotonicNowNs();
  for (auto& [id, entry] : open_) entry.recording.Close("daemon-shutdown");
  open_.clear();
}

}  // namespace smeltr::daemon
