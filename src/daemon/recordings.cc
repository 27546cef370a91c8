#include "daemon/recordings.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "daemon/ring_base.h"
#include "session/identity.h"
#include "session/recover.h"
#include "util/format.h"
#include "util/log.h"
#include "util/process.h"

namespace smeltr::daemon {
namespace {

constexpr size_t kMaxOpenRecordings = 256;
constexpr size_t kLoggedCommandLength = 200;
constexpr uint64_t kMaxFootprintPeriodMs = 24ULL * 3600 * 1000;
// Looking at all processes of a machine takes milliseconds.
constexpr uint64_t kScanPeriodNs = kNsPerSecond;

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
  return session.metadata_readable && session.metadata.kind != session::SessionKind::kPostMortem &&
         session.metadata.ended_rfc3339.empty() && IsSessionId(session.metadata.session_id) &&
         !std::filesystem::is_symlink(session.directory, error);
}

// Whether it can be what an earlier daemon of this boot was recording, rather than a copy or a leftover.
bool MayHaveRings(const session::StoredSession& session) {
  const std::string name = session.directory.filename().native();
  return session.metadata.kind == session::SessionKind::kScoped && session.metadata.boot_id == BootId() &&
         session::IsDirectoryName(name) && name.ends_with("-" + session::ShortId(session.metadata));
}

// Whether the maker of any of its rings runs: recorded by the daemon of a home that was moved away, perhaps.
bool IsInUse(const std::filesystem::path& rings) {
  std::error_code error;
  std::filesystem::directory_iterator entry(rings, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (!ring::ParseRingFileName(entry->path().filename().native()).has_value()) continue;
    auto segment = ring::Segment::Map(entry->path().c_str());
    if (segment.has_value() && ring::Reader(std::move(*segment)).owner_alive()) return true;
  }
  return false;
}

}  // namespace

void Recordings::AdoptUnfinished() {
  std::vector<std::string> with_rings;
  for (const std::filesystem::path& base : RingBaseCandidates(paths_)) {
    for (std::string& id : ListRingDirectories(base)) with_rings.push_back(std::move(id));
  }
  if (const auto recovered = session::RecoverMetadata(paths_.sessions, with_rings); !recovered.has_value()) {
    Log(LogLevel::kError, std::string(recovered.error().text()));
  }
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
    Log(LogLevel::kInfo, fmt::format("{} was left open and cannot be gone on with: completing it",
                                     session.directory.filename().native()));
    Recording::Adopt(std::move(session), {}, context_, {}, MonotonicNowNs()).Close("recovered");
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
  const LogOptions options = OptionsFor(session.metadata.max_size_bytes);
  session.metadata.end_reason.clear();
  Entry entry{Recording::Adopt(std::move(session), std::move(rings), context_, options, MonotonicNowNs())};
  open_.try_emplace(id, std::move(entry));
  context_.reserve.Hold();
  Changed();
}

// Only this daemon, the holder of the home's lock, makes directories there.
void Recordings::RemoveStrayRings() {
  std::set<std::filesystem::path> used;
  for (const auto& [id, entry] : open_) used.insert(entry.recording.ring_directory());
  for (const std::filesystem::path& base : RingBaseCandidates(paths_)) {
    for (const std::string& id : ListRingDirectories(base)) {
      if (used.contains(base / id)) continue;
      if (IsInUse(base / id)) {
        Log(LogLevel::kWarning,
            fmt::format("{} belongs to no session, but a process writes to it: left alone",
                        (base / id).native()));
        continue;
      }
      Log(LogLevel::kInfo, fmt::format("removing {}: no session belongs to it", (base / id).native()));
      if (const auto removed = RemoveRingDirectory(base, id); !removed.has_value()) {
        Log(LogLevel::kWarning, std::string(removed.error().text()));
      }
    }
  }
}

LogOptions Recordings::OptionsFor(uint64_t max_bytes) const {
  LogOptions options;
  options.max_bytes = max_bytes != 0 ? max_bytes : settings_.max_size_bytes;
  return options;
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
  session::Metadata metadata = MakeMetadata(request, std::move(name));
  const LogOptions options = OptionsFor(request.max_size_bytes);
  metadata.max_size_bytes = options.max_bytes;
  SMELTR_ASSIGN_OR_RETURN(Recording recording, Recording::Open(paths_.sessions, ring_base_,
                                                               std::move(metadata), context_, options));
  context_.reserve.Hold();
  ipc::Reserved reserved;
  reserved.session_id = recording.metadata().session_id;
  reserved.short_id = session::ShortId(recording.metadata());
  reserved.session_directory = recording.directory();
  reserved.ring_directory = recording.ring_directory();
  open_.try_emplace(reserved.session_id,
                    Entry{std::move(recording), client,
                          std::min(request.footprint_period_ms, kMaxFootprintPeriodMs) * 1'000'000});
  Log(LogLevel::kInfo, fmt::format("session {} reserved for {}", reserved.short_id,
                                   Truncate(request.argv.front(), kLoggedCommandLength)));
  return reserved;
}

Result<Recordings::Map::iterator> Recordings::FindOpen(std::string_view session_id) {
  const auto found = open_.find(session_id);
  if (found != open_.end()) return found;
  return Fail(ErrorCode::kNotFound, fmt::format("smeltrd has no open session {}", session_id.substr(0, 64)));
}

Result<void> Recordings::Attach(const ipc::Attach& request) {
  SMELTR_ASSIGN_OR_RETURN(const auto entry, FindOpen(request.session_id));
  if (request.pid == 0) return Fail(ErrorCode::kInvalidArgument, "Attach needs a process");
  if (entry->second.recording.attached()) {
    return Fail(ErrorCode::kAlreadyExists, "this session has a process already");
  }
  entry->second.recording.Attach(request);
  Changed();
  return {};
}

Result<void> Recordings::Cancel(const ipc::Cancel& request) {
  SMELTR_ASSIGN_OR_RETURN(const auto entry, FindOpen(request.session_id));
  entry->second.recording.Discard();
  open_.erase(entry);
  return {};
}

Result<void> Recordings::Finish(const ipc::Finish& request, uint64_t now_ns, FinishReply reply) {
  SMELTR_ASSIGN_OR_RETURN(const auto entry, FindOpen(request.session_id));
  if (!entry->second.recording.attached()) {
    return Fail(ErrorCode::kInvalidArgument, "nothing was attached to this session");
  }
  // A daemon may have died between the end and the reply.
  if (entry->second.recording.finished() && !entry->second.recording.log().adopted()) {
    return Fail(ErrorCode::kAlreadyExists, "this session's process has ended already");
  }
  entry->second.recording.Finish(request, now_ns, std::move(reply));
  return {};
}

Result<void> Recordings::Resume(const ipc::Resume& request, ClientId client) {
  SMELTR_ASSIGN_OR_RETURN(const auto entry, FindOpen(request.session_id));
  entry->second.client = client;
  entry->second.recording.Resume();
  return {};
}

Recording* Recordings::Find(std::string_view session_id) {
  const auto found = open_.find(session_id);
  return found == open_.end() ? nullptr : &found->second.recording;
}

Recording* Recordings::Newest() {
  Recording* newest = nullptr;
  for (auto& [id, entry] : open_) {
    Recording& recording = entry.recording;
    if (!recording.attached() || recording.finished()) continue;
    const bool newer =
        newest == nullptr || recording.metadata().start_mono_ns > newest->metadata().start_mono_ns;
    if (newer) newest = &recording;
  }
  return newest;
}

void Recordings::AppendToAll(const event::Event& event) {
  for (auto& [id, entry] : open_) {
    if (entry.recording.attached()) entry.recording.log().Append(event);
  }
}

void Recordings::ForEach(const std::function<void(Recording&)>& visit) {
  for (auto& [id, entry] : open_) visit(entry.recording);
}

std::vector<probe::Recorded> Recordings::Recorded() const {
  std::vector<probe::Recorded> all;
  for (const auto& [id, entry] : open_) {
    const session::Metadata& metadata = entry.recording.metadata();
    if (!entry.recording.attached()) continue;
    probe::Recorded recorded;
    recorded.session_id = id;
    recorded.token = metadata.scope_token;
    recorded.root_pid = metadata.root_pid;
    recorded.root_start_time_ticks = metadata.root_start_time_ticks;
    recorded.footprint_period_ns = entry.footprint_period_ns != 0 ? entry.footprint_period_ns
                                                                  : settings_.footprint_period_ms * 1'000'000;
    all.push_back(std::move(recorded));
  }
  return all;
}

void Recordings::ScanIfDue(uint64_t now_ns) {
  bool urgent = false;
  bool any = false;
  for (const auto& [id, entry] : open_) {
    any |= entry.recording.attached();
    urgent |= entry.recording.wants_members();
  }
  if (!any || (!urgent && now_ns - scanned_ns_ < kScanPeriodNs)) return;
  scanned_ns_ = now_ns;
  const std::vector<probe::ProcessEntry> processes = list_processes_();
  for (auto& [id, entry] : open_) entry.recording.UpdateMembers(processes);
}

void Recordings::Close(Recording& recording, std::string_view reason) {
  if (closing_) closing_(recording);
  recording.Close(reason);
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
  const size_t before = open_.size();
  ScanIfDue(now_ns);
  for (auto entry = open_.begin(); entry != open_.end();) {
    Recording& recording = entry->second.recording;
    const Recording::Progress one = recording.Poll(now_ns);
    all.busy |= one.busy;
    all.more |= one.more;
    if (one.done) {
      Close(recording, recording.EndReason());
      entry = open_.erase(entry);
    } else {
      ++entry;
    }
  }
  if (open_.size() != before) Changed();
  return all;
}

void Recordings::Shutdown(uint64_t deadline_ns) {
  uint64_t now_ns = MonotonicNowNs();
  while (now_ns < deadline_ns && Poll(now_ns).more) now_ns = MonotonicNowNs();
  for (auto& [id, entry] : open_) {
    Recording& recording = entry.recording;
    if (recording.AnyAlive()) {
      if (closing_) closing_(recording);
      recording.Detach();
    } else {
      Close(recording, recording.finished() ? recording.EndReason() : "daemon-shutdown");
    }
  }
  open_.clear();
}

}  // namespace smeltr::daemon
