#include "faces/cli/daemon_client.h"

#include <fmt/format.h>

#include "faces/session_reference.h"

namespace smeltr::faces::cli {

Result<ipc::Client> ConnectToDaemon(const Paths& paths, std::string_view role) {
  auto client = ipc::Client::Connect(paths.socket, role);
  if (!client.has_value()) {
    const ErrorCode code = client.error().code();
    const bool nobody = code == ErrorCode::kNotFound || code == ErrorCode::kUnavailable;
    if (!nobody) return client;
    return Fail(code, fmt::format("no smeltrd answers for {} ({}); `smeltr daemon start` starts one",
                                  paths.home.native(), client.error().text()));
  }
  if (client->welcome().home != paths.home.native()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the smeltrd at {} serves {}, not {}: unset SMELTR_SOCKET or set SMELTR_HOME",
                            paths.socket.native(), client->welcome().home, paths.home.native()));
  }
  return client;
}

Result<std::string> SessionIdOf(const Paths& paths, std::string_view reference) {
  if (reference.empty()) return std::string();
  SMELTR_ASSIGN_OR_RETURN(const session::StoredSession stored, FindSession(paths.sessions, reference));
  if (stored.metadata.session_id.empty()) {
    return Fail(ErrorCode::kCorrupt, fmt::format("the metadata of {} cannot be read: it has no id to go by",
                                                 stored.directory.native()));
  }
  return stored.metadata.session_id;
}

}  // namespace smeltr::faces::cli
