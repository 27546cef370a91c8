// Where the ring directories of recordings are, one a session, named by the session's id. What is deleted
// there is named by directory and id, never by a path: neither a link nor a forged id leads elsewhere.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr::daemon {

// A UUID as sessions are given: lower case, with its dashes.
bool IsSessionId(std::string_view text);

// The base's directory, if it is one of ours that nobody else can write to and no link; kPermission or the
// system's error otherwise. A descriptor of it stays on it, whatever happens to the path.
Result<Fd> OpenRingBase(const std::filesystem::path& base);

// Whether a usable `base` has a real directory for this session.
bool HasRingDirectory(const std::filesystem::path& base, std::string_view session_id);

// The ids that have a directory in `base`; none when it cannot be used. Links and other names are left out.
std::vector<std::string> ListRingDirectories(const std::filesystem::path& base);

// Deletes the session's directory in `base` with all that is in it, links themselves but not what they lead
// to. Not being there is success; kInvalidArgument when `session_id` is none.
Result<void> RemoveRingDirectory(const std::filesystem::path& base, std::string_view session_id);

}  // namespace smeltr::daemon
