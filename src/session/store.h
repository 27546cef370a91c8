// The sessions of one SMELTR_HOME: make, list, find.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "session/metadata.h"

namespace smeltr::session {

inline constexpr std::string_view kEventsFile = "events.smlt";
inline constexpr std::string_view kMetadataFile = "metadata.toml";

struct StoredSession {
  std::filesystem::path directory;
  Metadata metadata;
  bool metadata_readable = true;  // False: only the directory's name and events are known.

  // That of the metadata, else the end of the directory's name; empty when neither has one.
  std::string short_id() const;
};

// Trimmed; an error for NUL, control characters, '/', more than 200 code points, and names shaped like
// an id or a post-mortem. Empty stays empty.
Result<std::string> ValidateName(std::string_view name);

// Creates `sessions_directory`/YYYY-MM-DD-HHMMSS-<short id> (0700) with metadata in it; fills in
// session_id, started_rfc3339, start_mono_ns, boot_id and host where they are empty.
Result<StoredSession> CreateSession(const std::filesystem::path& sessions_directory, Metadata metadata);

// The same in `sessions_directory`/post-mortem-<label>-YYYY-MM-DD-HHMMSS-<short id>, the instant being now: a
// post-mortem may start when its source did. Of `label`, anybody's text, only what is safe in a name is used.
Result<StoredSession> CreatePostMortem(const std::filesystem::path& sessions_directory,
                                       std::string_view label, Metadata metadata);

// Newest start first. A missing directory is an empty list; unreadable sessions are listed as such.
Result<std::vector<StoredSession>> ListSessions(const std::filesystem::path& sessions_directory);

// A reference: exact directory name, full UUID (dashed or not), short id, exact name (newest wins, before
// post-mortems, which have their source's), or unique hex prefix of at least 4, in this order. The error of
// an unknown one names the nearest, that of an ambiguous one the candidates.
Result<StoredSession> Resolve(const std::filesystem::path& sessions_directory, std::string_view reference);
// --last: the newest scoped session; the newest of any kind if there is none, or with include_ambient: of
// sessions that started together, a post-mortem comes last.
Result<StoredSession> ResolveLast(const std::filesystem::path& sessions_directory, bool include_ambient);

}  // namespace smeltr::session
