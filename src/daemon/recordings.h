// All recordings of this daemon: reserve, attach, finish, orphan, adopt. Policy is here; what a single one
// does is in recording.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>

#include "base/result.h"
#include "daemon/disk_reserve.h"
#include "daemon/recording.h"
#include "ipc/message.h"
#include "util/paths.h"

namespace smeltr::daemon {

// A connection to the daemon, for telling whose recordings end with it.
using ClientId = uint64_t;

class Recordings {
 public:
  Recordings(Paths paths, std::filesystem::path ring_base)
      : paths_(std::move(paths)), ring_base_(std::move(ring_base)), reserve_(paths_.run / "reserve") {}

  // Takes over the sessions that a dead daemon left open, and removes ring directories that belong to none.
  // One that cannot be taken over is logged and does not stop the others.
  void AdoptUnfinished();

  Result<ipc::Reserved> Reserve(const ipc::Reserve& request, ClientId client);
  Result<void> Attach(const ipc::Attach& request);
  Result<void> Cancel(const ipc::Cancel& request);
  // `reply` is called later, once, unless an error is returned.
  Result<void> Finish(const ipc::Finish& request, uint64_t now_ns, FinishReply reply);
  void ClientLost(ClientId client);

  struct Progress {
    bool busy = false;  // Come again within a millisecond.
    bool more = false;  // Come again at once.
  };
  // One bounded step for every recording.
  Progress Poll(uint64_t now_ns);

  // Drains what there is until `deadline_ns` at most and ends every session.
  void Shutdown(uint64_t deadline_ns);

  size_t open_count() const { return open_.size(); }

 private:
  struct Entry {
    Recording recording;
    ClientId client = 0;
  };
  using Map = std::map<std::string, Entry, std::less<>>;
  Result<Map::iterator> Find(std::string_view session_id);
  void Adopt(session::StoredSession session);
  void RemoveStrayRings();

  Paths paths_;
  std::filesystem::path ring_base_;
  DiskReserve reserve_;
  Map open_;  // By session id.
};

}  // namespace smeltr::daemon
