// The scopes that a post-mortem's events refer to and that were entered before the time it covers.
#pragma once

#include <cstdint>
#include <filesystem>

#include "base/result.h"

namespace smeltr::daemon {

// Looks for them in the event files of `source` and puts what it finds into a second event file of `dump`,
// numbered from `first_seq` on. How many they are. Takes as long as reading the scopes of the source does,
// but a few seconds at most.
Result<uint64_t> CarryScopes(const std::filesystem::path& source, const std::filesystem::path& dump,
                             uint64_t first_seq);

}  // namespace smeltr::daemon
