// What the daemon answers, as JSON: the other half of answer_json.h, same rules.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ipc/message.h"
#include "session/store.h"

namespace smeltr::faces {

struct DaemonView {
  bool running = false;
  ipc::StatusReport report;    // When it runs.
  std::string client_version;  // Of this program.
  std::string home;
  std::string socket;
  std::string reason;  // Why it does not run, or does not answer.
};
std::string StatusJson(const DaemonView& view);

std::string MarkedJson(const ipc::Marked& marked, std::string_view label);
std::string DumpedJson(const ipc::Dumped& dumped);

// What was pinned, or unpinned.
std::string PinnedJson(const std::vector<session::StoredSession>& sessions, bool pinned);

// What was, or would be, deleted.
struct RemovedRow {
  std::string session_id;
  std::string short_id;
  std::string name;
  std::string reason;
  uint64_t bytes = 0;
  std::string error;  // Why it was not, if so.
};
std::string RemovedJson(const std::vector<RemovedRow>& rows, bool dry_run, uint64_t kept_bytes);

}  // namespace smeltr::faces
