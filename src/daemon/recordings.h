// All recordings of this daemon: reserve, attach, finish, orphan, adopt. Policy is here; what a single one
// does is in recording.h. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "daemon/recording.h"
#include "ipc/message.h"
#include "probe/process_tree.h"
#include "util/config.h"
#include "util/paths.h"

namespace smeltr::daemon {

// A connection to the daemon, for telling whose recordings end with it.
using ClientId = uint64_t;
using ListProcesses = std::function<std::vector<probe::ProcessEntry>()>;

class Recordings {
 public:
  // `context` outlives it.
  Recordings(
      Paths paths, std::filesystem::path ring_base, const LogContext& context,
      const RecordSettings& settings = {},
      ListProcesses list_processes = [] { return probe::ListProcesses(); })
      : paths_(std::move(paths)),
        ring_base_(std::move(ring_base)),
        context_(context),
        settings_(settings),
        list_processes_(std::move(list_processes)) {}

  // Takes over the sessions that a dead daemon left open, and removes ring directories that belong to none.
  // One that cannot be taken over is logged and does not stop the others.
  void AdoptUnfinished();

  Result<ipc::Reserved> Reserve(const ipc::Reserve& request, ClientId client);
  Result<void> Attach(const ipc::Attach& request);
  Result<void> Cancel(const ipc::Cancel& request);
  // `reply` is called later, once, unless an error is returned.
  Result<void> Finish(const ipc::Finish& request, uint64_t now_ns, FinishReply reply);
  Result<void> Resume(const ipc::Resume& request, ClientId client);
  void ClientLost(ClientId client);

  struct Progress {
    bool busy = false;  // Come again within a millisecond.
    bool more = false;  // Come again at once.
  };
  // One bounded step for every recording.
  Progress Poll(uint64_t now_ns);

  // Drains what there is until `deadline_ns` at most and ends every session, but for those of which something
  // still runs: they are left to the next daemon.
  void Shutdown(uint64_t deadline_ns);

  size_t open_count() const { return open_.size(); }
  // nullptr when it is not open.
  Recording* Find(std::string_view session_id);
  // The recording that was attached last; nullptr without one.
  Recording* Newest();
  // About the machine, for every recording.
  void AppendToAll(const event::Event& event);
  void ForEach(const std::function<void(Recording&)>& visit);
  // What the probes look at closely. `changed` is called when it is not the same any more.
  std::vector<probe::Recorded> Recorded() const;
  void OnChange(std::function<void()> changed) { changed_ = std::move(changed); }
  // Before the writer of a session is closed.
  void OnClosing(std::function<void(Recording&)> closing) { closing_ = std::move(closing); }

 private:
  struct Entry {
    Recording recording;
    ClientId client = 0;
    uint64_t footprint_period_ns = 0;
  };
  using Map = std::map<std::string, Entry, std::less<>>;
  Result<Map::iterator> FindOpen(std::string_view session_id);
  void Adopt(session::StoredSession session);
  void RemoveStrayRings();
  void ScanIfDue(uint64_t now_ns);
  void Close(Recording& recording, std::string_view reason);
  LogOptions OptionsFor(uint64_t max_bytes) const;
  void Changed() const {
    if (changed_) changed_();
  }

  Paths paths_;
  std::filesystem::path ring_base_;
  const LogContext& context_;
  RecordSettings settings_;
  ListProcesses list_processes_;
  std::function<void()> changed_;
  std::function<void(Recording&)> closing_;
  uint64_t scanned_ns_ = 0;
  Map open_;  // By session id.
};

}  // namespace smeltr::daemon
