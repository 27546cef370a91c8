// How a user names a session: by reference (session/store.h), or by where it is.
#pragma once

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "session/store.h"

namespace smeltr::faces {

// `reference` as session::Resolve() takes it, or the path of a session's directory, wherever that is: one
// with a
// '/' in it is a path, for names have none.
Result<session::StoredSession> FindSession(const std::filesystem::path& sessions_directory,
                                           std::string_view reference);

// The same for what changes sessions: kInvalidArgument for a path to one that is elsewhere.
Result<session::StoredSession> FindOwnSession(const std::filesystem::path& sessions_directory,
                                              std::string_view reference);

}  // namespace smeltr::faces
