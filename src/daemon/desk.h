// Answers what clients ask: looks requests up, checks them and passes them to whom they concern. The server
// only carries them. Not thread-safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "daemon/ambient.h"
#include "daemon/bus.h"
#include "daemon/probes.h"
#include "daemon/recordings.h"
#include "daemon/router.h"
#include "ipc/message.h"

namespace smeltr::daemon {

// Parts of the daemon that requests concern; all outlive the desk.
struct DeskParts {
  Recordings& recordings;
  Ambient& ambient;
  Router& router;
  Probes* probes = nullptr;
};

class Desk {
 public:
  using Answer = std::function<void(const ipc::Reply&)>;

  // `wake`: a request may have made work for Recordings::Poll. `stop`: somebody asked for the daemon's end.
  Desk(const DeskParts& parts, ipc::Welcome welcome, std::function<void()> wake, std::function<void()> stop)
      : parts_(parts), welcome_(std::move(welcome)), wake_(std::move(wake)), stop_(std::move(stop)) {}

  // `answer` is called exactly once: now, or later for what takes its time.
  void Handle(const ipc::Request& request, ClientId client, Answer answer);
  void ClientLost(ClientId client);

  // For Subscribe, whose messages the server takes from the bus.
  Bus& bus() { return parts_.router.bus(); }
  ipc::Heartbeat Standing();
  const ipc::Welcome& welcome() const { return welcome_; }
  // Told by the server, for Status.
  void SetConnectionCount(size_t count) { connection_count_ = count; }

 private:
  ipc::Reply On(const ipc::Hello& hello);
  ipc::Reply On(const ipc::Reserve& reserve, ClientId client);
  ipc::Reply On(const ipc::Mark& mark);
  ipc::Reply StatusNow();
  void On(const ipc::Finish& finish, const Answer& answer);
  void On(const ipc::Dump& dump, const Answer& answer);
  // The open session a request means: by id, else the newest recording, else the ambient one.
  Result<SessionLog*> Target(const std::string& session_id);

  DeskParts parts_;
  ipc::Welcome welcome_;
  std::function<void()> wake_;
  std::function<void()> stop_;
  size_t connection_count_ = 0;
  uint64_t started_ns_ = MonotonicNowNs();
};

}  // namespace smeltr::daemon
