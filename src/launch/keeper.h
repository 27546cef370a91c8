// Keeps a recording known to a daemon while its program runs: when smeltrd dies, another is started and told
// to go on. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "ipc/client.h"
#include "launch/child.h"
#include "util/paths.h"

namespace smeltr::launch {

class Keeper : public Companion {
 public:
  Keeper(Paths paths, std::filesystem::path daemon_program, std::string session_id, ipc::Client client);

  // --- while the program runs ---
  int fd() const override { return client_.has_value() ? client_->fd() : -1; }
  int timeout_ms() const override;
  void Attend() override;

  // The daemon, at the end: as it stands, else with one more try. Then the text says what is wrong.
  Result<ipc::Finished> Finish(const ipc::Finish& finish);
  Result<void> Cancel();
  Result<void> Attach(const ipc::Attach& attach) { return client_->Call(attach); }

 private:
  // A daemon that was told to end leaves no socket behind: then the user does not want one just now.
  bool MayStart() const;
  void TryAgain();
  Result<ipc::Client> Reconnect() const;

  Paths paths_;
  std::filesystem::path daemon_program_;
  std::string session_id_;
  std::optional<ipc::Client> client_;
  uint64_t next_try_ns_ = 0;
  uint64_t pause_ns_ = 0;
  bool given_up_ = false;  // There is a daemon, and it knows nothing of the session.
};

}  // namespace smeltr::launch
