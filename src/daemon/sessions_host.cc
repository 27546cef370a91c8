#include "daemon/sessions_host.h"

#include <string>

#include "util/log.h"

namespace smeltr::daemon {

SessionLog* SessionsHost::Find(std::string_view session_id) {
  if (Recording* recording = recordings_.Find(session_id); recording != nullptr) return &recording->log();
  SessionLog* log = ambient_.log();
  return log != nullptr && log->metadata().session_id == session_id ? log : nullptr;
}

void SessionsHost::FlushSession(std::string_view session_id) {
  if (SessionLog* log = Find(session_id); log != nullptr) log->Flush();
}

std::optional<session::Metadata> SessionsHost::SessionMetadata(std::string_view session_id) {
  const SessionLog* log = Find(session_id);
  if (log == nullptr) return std::nullopt;
  return log->metadata();
}

bool SessionsHost::IsMember(std::string_view session_id, uint32_t pid) {
  const Recording* recording = recordings_.Find(session_id);
  return recording != nullptr && recording->IsMember(pid);
}

void SessionsHost::Announce(const WrittenDump& dump) {
  SessionLog* source = Find(dump.source_session);
  SessionLog* ambient = ambient_.log();
  if (source != nullptr) {
    LinkDump(source->metadata(), dump);
    source->AppendOwn(event::Api::kNone, 0, MakeFlushedEvent(dump));
    source->SaveMetadata();
  } else if (const auto linked = LinkToSource(sessions_directory_, dump); !linked.has_value()) {
    Log(LogLevel::kWarning, std::string(linked.error().text()));
  }
  if (ambient != nullptr && ambient != source) {
    ambient->AppendOwn(event::Api::kNone, 0, MakeFlushedEvent(dump));
  }
}

}  // namespace smeltr::daemon
