// Whether somebody is recording into a session: they hold a lock on its directory for as long as they do, so
// that a dead daemon's sessions never look open, and an idle one's always do.
#pragma once

#include <filesystem>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr::session {

// Held until the descriptor is closed. kAlreadyExists when somebody else has it.
Result<Fd> LockOpen(const std::filesystem::path& directory);

// False also where the file system knows no locks.
bool IsOpen(const std::filesystem::path& directory);

}  // namespace smeltr::session
