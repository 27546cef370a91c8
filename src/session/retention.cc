#include "session/retention.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <numeric>
#include <system_error>

#include "base/fd.h"
#include "session/identity.h"
#include "session/open_lock.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kPinFile = "pinned";
// Names with a dot in front are no sessions to anybody.
constexpr std::string_view kRemovingPrefix = ".removing-";
constexpr uint64_t kNsPerDay = uint64_t{86'400} * 1'000'000'000;
constexpr auto kRecently = std::chrono::minutes(10);

bool IsLink(const fs::path& path) {
  std::error_code ignored;
  return fs::is_symlink(fs::symlink_status(path, ignored));
}

// Of the earlier smeltr, and not imported: its only copy may be the user's only one.
bool WaitsForImport(const fs::path& directory) {
  std::error_code ignored;
  return !fs::exists(directory / kEventsFile, ignored) &&
         (fs::exists(directory / "events.cbor.zst", ignored) ||
          fs::exists(directory / "events.cbor", ignored));
}

// The ids, or directory names, that post-mortems give as what they are about.
std::set<std::string> SourcesOf(const std::vector<StoredSession>& sessions) {
  std::set<std::string> sources;
  for (const StoredSession& session : sessions) {
    if (session.metadata.kind != SessionKind::kPostMortem) continue;
    sources.insert(session.metadata.source_session_id);
  }
  sources.erase("");
  return sources;
}

// Signals by which people and systems end programs that do their work well.
bool IsCrashSignal(int signal) {
  return signal != SIGINT && signal != SIGTERM && signal != SIGHUP && signal != SIGPIPE;
}

bool ChangedRecently(const fs::path& directory) {
  std::error_code error;
  for (const fs::path& file : {directory / kEventsFile, directory / kMetadataFile}) {
    const auto changed = fs::last_write_time(file, error);
    if (!error && fs::file_time_type::clock::now() - changed < kRecently) return true;
  }
  return false;
}

bool LooksOpen(const StoredSession& session, const std::set<std::string>& open_session_ids) {
  if (IsOpen(session.directory) || open_session_ids.contains(session.metadata.session_id)) return true;
  return session.metadata.ended_rfc3339.empty() && ChangedRecently(session.directory);
}

// One that comes from elsewhere is as old here as its import.
uint64_t ImportOf(const StoredSession& session) {
  return ParseInstant(session.metadata.imported_rfc3339).value_or(0);
}

uint64_t EndOf(const StoredSession& session) {
  const uint64_t started_ns = ParseInstant(session.metadata.started_rfc3339).value_or(0);
  const uint64_t ended_ns = ParseInstant(session.metadata.ended_rfc3339).value_or(0);
  return std::max({started_ns, ended_ns, ImportOf(session)});
}

bool OlderThan(const KeptSession& session, uint64_t days, uint64_t now_unix_ns) {
  const uint64_t end_ns = EndOf(session.stored);
  // Without any date nothing is known about its age.
  return days != 0 && end_ns != 0 && now_unix_ns > end_ns && (now_unix_ns - end_ns) / kNsPerDay >= days;
}

bool MayGo(const KeptSession& session) { return !session.open && !session.pinned; }

class Planner {
 public:
  Planner(const std::vector<KeptSession>& sessions, const RetentionSettings& settings)
      : sessions_(sessions), settings_(settings), gone_(sessions.size(), false) {}

  std::vector<Removal> Plan(uint64_t now_unix_ns) {
    // Oldest first, all the way.
    for (size_t i = sessions_.size(); i-- > 0;) {
      const bool ambient = sessions_[i].stored.metadata.kind == SessionKind::kAmbient;
      if (ambient && OlderThan(sessions_[i], settings_.ambient_days, now_unix_ns)) {
        Remove(i, RemovalReason::kAmbientAge);
      }
      if (OlderThan(sessions_[i], settings_.max_age_days, now_unix_ns)) Remove(i, RemovalReason::kAge);
    }
    LimitPostMortems();
    LimitTotal();
    return std::move(removals_);
  }

 private:
  void Remove(size_t index, RemovalReason reason) {
    if (gone_[index] || !MayGo(sessions_[index])) return;
    gone_[index] = true;
    removals_.push_back({index, reason});
  }

  void LimitPostMortems() {
    if (settings_.max_post_mortems == 0) return;
    uint64_t count = 0;
    std::vector<size_t> surplus;
    for (size_t i = 0; i < sessions_.size(); ++i) {
      if (gone_[i] || sessions_[i].stored.metadata.kind != SessionKind::kPostMortem) continue;
      if (ImportOf(sessions_[i].stored) != 0) continue;  // Somebody wanted them.
      if (++count > settings_.max_post_mortems) surplus.push_back(i);
    }
    for (size_t i = surplus.size(); i-- > 0;) Remove(surplus[i], RemovalReason::kPostMortemCount);
  }

  void LimitTotal() {
    if (settings_.max_total_bytes == 0) return;
    uint64_t total = 0;
    for (size_t i = 0; i < sessions_.size(); ++i) total += gone_[i] ? 0 : sessions_[i].bytes;
    // Oldest first.
    std::vector<size_t> order(sessions_.size());
    std::iota(order.rbegin(), order.rend(), size_t{0});
    std::ranges::stable_partition(order, [&](size_t i) { return ImportOf(sessions_[i].stored) == 0; });
    for (const bool crashed : {false, true}) {
      for (const size_t i : order) {
        if (total <= settings_.max_total_bytes) break;
        if (gone_[i] || sessions_[i].crashed != crashed) continue;
        Remove(i, RemovalReason::kTotalSize);
        if (gone_[i]) total -= sessions_[i].bytes;
      }
    }
  }

  const std::vector<KeptSession>& sessions_;
  const RetentionSettings& settings_;
  std::vector<bool> gone_;
  std::vector<Removal> removals_;
};

Result<void> RemoveTree(const fs::path& directory) {
  std::error_code error;
  fs::remove_all(directory, error);
  if (error) return std::unexpected(SystemError("remove", directory, error.value()));
  return {};
}

void FinishInterrupted(const fs::path& sessions_directory, RetentionReport& report) {
  std::error_code error;
  std::vector<fs::path> left;
  for (fs::directory_iterator entry(sessions_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().native().starts_with(kRemovingPrefix)) left.push_back(entry->path());
  }
  for (const fs::path& directory : left) {
    const Result<void> removed = RemoveTree(directory);
    if (!removed.has_value()) report.problems.emplace_back(removed.error().text());
  }
}

}  // namespace

bool IsPinned(const fs::path& directory) {
  std::error_code ignored;
  return fs::exists(fs::symlink_status(directory / kPinFile, ignored));
}

Result<void> SetPinned(const fs::path& directory, bool pinned) {
  const fs::path file = directory / kPinFile;
  if (!pinned) {
    if (::unlink(file.c_str()) != 0 && errno != ENOENT) {
      return std::unexpected(SystemError("remove", file, errno));
    }
    return {};
  }
  const Fd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return std::unexpected(SystemError("create", file, errno));
  return {};
}

uint64_t DirectoryBytes(const fs::path& directory) {
  uint64_t bytes = 0;
  std::error_code error;
  for (fs::recursive_directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    struct stat status{};
    if (::lstat(entry->path().c_str(), &status) == 0) bytes += static_cast<uint64_t>(status.st_blocks) * 512;
  }
  return bytes;
}

Result<std::vector<KeptSession>> SurveySessions(const fs::path& sessions_directory,
                                                const std::set<std::string>& open_session_ids) {
  SMELTR_ASSIGN_OR_RETURN(std::vector<StoredSession> stored, ListSessions(sessions_directory));
  const std::set<std::string> sources = SourcesOf(stored);
  std::vector<KeptSession> sessions;
  sessions.reserve(stored.size());
  for (StoredSession& one : stored) {
    // Somebody keeps it elsewhere: not ours to delete.
    if (IsLink(one.directory) || WaitsForImport(one.directory)) continue;
    KeptSession session;
    session.bytes = DirectoryBytes(one.directory);
    session.pinned = IsPinned(one.directory);
    session.open = LooksOpen(one, open_session_ids);
    const Metadata& metadata = one.metadata;
    session.crashed = metadata.kind == SessionKind::kPostMortem || sources.contains(metadata.session_id) ||
                      (metadata.term_signal && IsCrashSignal(*metadata.term_signal));
    session.stored = std::move(one);
    sessions.push_back(std::move(session));
  }
  return sessions;
}

std::string Describe(RemovalReason reason, const RetentionSettings& settings) {
  switch (reason) {
    case RemovalReason::kAge:
      return "older than " + FormatCounted(settings.max_age_days, "day");
    case RemovalReason::kAmbientAge:
      return "ambient, older than " + FormatCounted(settings.ambient_days, "day");
    case RemovalReason::kPostMortemCount:
      return "more than " + FormatCounted(settings.max_post_mortems, "post-mortem");
    case RemovalReason::kTotalSize:
      return "more than " + FormatBytes(settings.max_total_bytes) + " in all";
  }
  return "unknown";
}

std::vector<Removal> PlanRemovals(const std::vector<KeptSession>& sessions, const RetentionSettings& settings,
                                  uint64_t now_unix_ns) {
  return Planner(sessions, settings).Plan(now_unix_ns);
}

Result<void> RemoveSession(const fs::path& sessions_directory, std::string_view directory_name, bool force) {
  const fs::path name(directory_name);
  if (name.empty() || name != name.filename() || directory_name.starts_with('.')) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no session's directory", Printable(directory_name)));
  }
  const fs::path directory = sessions_directory / name;
  if (IsLink(directory)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is a link: remove it yourself", directory.native()));
  }
  if (!force && IsPinned(directory)) {
    return Fail(ErrorCode::kAlreadyExists, fmt::format("{} is pinned", name.native()));
  }
  const fs::path removing = sessions_directory / (std::string(kRemovingPrefix) + name.native());
  if (::rename(directory.c_str(), removing.c_str()) != 0) {
    return std::unexpected(SystemError("remove", directory, errno));
  }
  return RemoveTree(removing);
}

Result<RetentionReport> EnforceRetention(const fs::path& sessions_directory,
                                         const RetentionSettings& settings,
                                         const std::set<std::string>& open_session_ids,
                                         uint64_t now_unix_ns) {
  SMELTR_ASSIGN_OR_RETURN(const std::vector<KeptSession> sessions,
                          SurveySessions(sessions_directory, open_session_ids));
  RetentionReport report;
  FinishInterrupted(sessions_directory, report);
  for (const KeptSession& session : sessions) report.kept_bytes += session.bytes;
  for (const Removal& removal : PlanRemovals(sessions, settings, now_unix_ns)) {
    const KeptSession& session = sessions[removal.index];
    const std::string name = session.stored.directory.filename().native();
    if (const Result<void> removed = RemoveSession(sessions_directory, name, false); !removed.has_value()) {
      report.problems.emplace_back(removed.error().text());
      continue;
    }
    report.freed_bytes += session.bytes;
    report.kept_bytes -= session.bytes;
    report.removed.push_back(
        fmt::format("{} ({}, {})", name, Describe(removal.reason, settings), FormatBytes(session.bytes)));
  }
  return report;
}

}  // namespace smeltr::session
