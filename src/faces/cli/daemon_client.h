// The daemon, as commands need it.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "ipc/client.h"
#include "util/paths.h"

namespace smeltr::faces::cli {

// kNotFound or kUnavailable, with advice, when none runs; one of another home is refused. Starts none.
Result<ipc::Client> ConnectToDaemon(const Paths& paths, std::string_view role);

// "3f2a9c1d", a name ... -> the session's id, as the daemon knows it; empty for an empty reference.
Result<std::string> SessionIdOf(const Paths& paths, std::string_view reference);

}  // namespace smeltr::faces::cli
