// What post-mortems need of the open sessions. Not thread-safe.
#pragma once

#include <filesystem>
#include <optional>
#include <string_view>

#include "daemon/ambient.h"
#include "daemon/post_mortem.h"
#include "daemon/recordings.h"

namespace smeltr::daemon {

class SessionsHost : public PostMortems::Host {
 public:
  // Both outlive it.
  SessionsHost(Recordings& recordings, Ambient& ambient, std::filesystem::path sessions_directory)
      : recordings_(recordings), ambient_(ambient), sessions_directory_(std::move(sessions_directory)) {}

  void FlushSession(std::string_view session_id) override;
  std::optional<session::Metadata> SessionMetadata(std::string_view session_id) override;
  bool IsMember(std::string_view session_id, uint32_t pid) override;
  bool HasScopedSessions() override { return recordings_.open_count() != 0; }
  void Announce(const WrittenDump& dump) override;

 private:
  SessionLog* Find(std::string_view session_id);

  Recordings& recordings_;
  Ambient& ambient_;
  std::filesystem::path sessions_directory_;
};

}  // namespace smeltr::daemon
