// Makes sessions whole again whose metadata a dying machine or disk has spoilt.
#pragma once

#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/store.h"

namespace smeltr::session {

inline constexpr std::string_view kBadMetadataFile = "metadata.toml.bad";

// Sessions of `sessions_directory` whose metadata is missing or cannot be parsed get it anew, from what their
// events and the directory's name tell, with the end reason "recovered"; the bad file is kept beside it.
// `known_ids` are full ids of sessions that still have something to add (their rings): one of them that
// begins like the directory's name ends is the session's, and it stays open. Others get an id with that
// beginning. One that cannot be made whole does not stop the others; events files are never touched. Before
// sessions left open are looked for.
Result<std::vector<StoredSession>> RecoverMetadata(const std::filesystem::path& sessions_directory,
                                                   std::span<const std::string> known_ids);

// The same for one session, which it takes as ended; writes nothing.
Result<Metadata> RebuildMetadata(const std::filesystem::path& directory);

// When its events files were changed last, ns since 1970; 0 when it cannot be told.
uint64_t LastEventsChangeNs(const std::filesystem::path& directory);

}  // namespace smeltr::session
