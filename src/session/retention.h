// Which sessions go when there are too many: planned by a pure function, carried out with care. Never an
// open or a pinned one; of those that must go for their size alone, crashes last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/store.h"
#include "util/config.h"

namespace smeltr::session {

// What there is to decide about.
struct KeptSession {
  StoredSession stored;
  uint64_t bytes = 0;  // On disk, everything in its directory.
  bool pinned = false;
  bool open = false;     // Being written.
  bool crashed = false;  // Evidence: killed by a signal that nobody asks for, a post-mortem, or one's source.
};

// A file `pinned` in the session's directory, so that nobody else's writes of the metadata can undo it.
bool IsPinned(const std::filesystem::path& directory);
Result<void> SetPinned(const std::filesystem::path& directory, bool pinned);

// Disk blocks of the files in it, links not followed.
uint64_t DirectoryBytes(const std::filesystem::path& directory);

// All sessions, newest first. Open are those that somebody holds open (open_lock.h), those of
// `open_session_ids`, and those without an end that were written to within the last minutes: their daemon has
// died, and the next one will want them.
Result<std::vector<KeptSession>> SurveySessions(const std::filesystem::path& sessions_directory,
                                                const std::set<std::string>& open_session_ids);

enum class RemovalReason : uint8_t {
  kAge,
  kAmbientAge,
  kPostMortemCount,
  kTotalSize,
};
// "older than 30 days", and so on.
std::string Describe(RemovalReason reason, const RetentionSettings& settings);

struct Removal {
  size_t index = 0;  // In the list of sessions.
  RemovalReason reason = RemovalReason::kAge;
};
// `sessions` newest first. In the order in which they go.
std::vector<Removal> PlanRemovals(const std::vector<KeptSession>& sessions, const RetentionSettings& settings,
                                  uint64_t now_unix_ns);

// Makes it vanish from lists at once, then deletes it. kAlreadyExists when it was pinned meanwhile and
// `force` is not given. Only ever touches a directory directly inside `sessions_directory`.
Result<void> RemoveSession(const std::filesystem::path& sessions_directory, std::string_view directory_name,
                           bool force);

struct RetentionReport {
  std::vector<std::string> removed;   // "3f2a9c1d (ambient session older than 7 days, 1.2 MiB)"
  std::vector<std::string> problems;  // What could not be removed, and why.
  uint64_t freed_bytes = 0;
  uint64_t kept_bytes = 0;
};
// All of it at once, for the daemon. Also finishes what an interrupted removal left behind.
Result<RetentionReport> EnforceRetention(const std::filesystem::path& sessions_directory,
                                         const RetentionSettings& settings,
                                         const std::set<std::string>& open_session_ids, uint64_t now_unix_ns);

}  // namespace smeltr::session
