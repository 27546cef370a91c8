// One recording, from its reservation to its end: a session, a ring directory, a recorded process and all
// that descend from it. Not thread-safe.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "daemon/drain.h"
#include "daemon/session_log.h"
#include "ipc/message.h"
#include "probe/process_tree.h"
#include "util/log.h"

namespace smeltr::daemon {

using FinishReply = std::function<void(const ipc::Finished&)>;

class Recording {
 public:
  // The session and its ring directory under `ring_base`. `metadata` holds what is known of the command.
  static Result<Recording> Open(const std::filesystem::path& sessions_directory,
                                const std::filesystem::path& ring_base, session::Metadata metadata,
                                const LogContext& context, const LogOptions& options);
  // One whose daemon died before it ended; `ring_directory` may be gone. `now_ns`: its record has some time
  // from then on to call Finish or Resume.
  static Recording Adopt(session::StoredSession session, std::filesystem::path ring_directory,
                         const LogContext& context, const LogOptions& options, uint64_t now_ns);

  SessionLog& log() { return log_; }
  const SessionLog& log() const { return log_; }
  const session::Metadata& metadata() const { return log_.metadata(); }
  const std::filesystem::path& directory() const { return log_.directory(); }
  const std::filesystem::path& ring_directory() const { return rings_.path(); }
  bool attached() const { return metadata().root_pid != 0; }
  bool finished() const { return root_ended_; }

  // The recorded process exists, held.
  void Attach(const ipc::Attach& request);
  // The recorded process ended and was waited for. `reply` is called, once, by a later Poll() or Close().
  void Finish(const ipc::Finish& request, uint64_t now_ns, FinishReply reply);
  // Nobody will call Finish: it ends when the recorded process does.
  void ClientLost() { client_lost_ = true; }
  // Somebody will, after all.
  void Resume() { client_lost_ = false; }

  // Who of the recording is there, by a list of all processes of the machine as of now.
  void UpdateMembers(const std::vector<probe::ProcessEntry>& processes);
  // Its end waits for such a list.
  bool wants_members() const { return attached() && root_ended_ && !members_current_; }
  // Whether the process is, or was, one of the recording's.
  bool IsMember(uint32_t pid) const { return member_pids_.contains(pid); }

  struct Progress {
    bool busy = false;  // Something was drained: come again soon.
    bool more = false;  // There is more right now.
    bool done = false;  // Everything ended: Close() it.
  };
  // One bounded step of draining, flushing and looking for deaths.
  Progress Poll(uint64_t now_ns);

  ipc::RecordingStatus Status();

  // Ends the session with what it has and removes the ring directory.
  void Close(std::string_view end_reason);
  // Why it ended, for Close() after Poll() said done.
  std::string EndReason() const;
  // Leaves it, with all rings, to the next daemon: something of it still runs.
  void Detach();
  bool AnyAlive() const;
  // It never became one: removes session and ring directory.
  void Discard();

 private:
  Recording(SessionLog log, RingDirectory rings, probe::ProcessTree tree)
      : log_(std::move(log)), rings_(std::move(rings)), tree_(std::move(tree)) {}
  void NoteNewProcesses();
  // Tells of a process that is new, or executes something else by now.
  void NoteProcess(uint32_t pid, uint64_t start_time_ticks, uint32_t parent_pid, std::string_view name);
  std::string ExecutableOf(uint32_t pid, uint32_t parent_pid) const;
  void NoteEnds(bool all);
  void NoteFailure(const ring::Failure& failure);
  void NoteDrops(const RingDrops& drops);
  void NoteEnd(const RingEnd& end);
  void CheckDeaths(uint64_t now_ns);
  void SettleHookState();
  void AnswerFinish(bool drained);
  size_t LiveCount() const;
  bool RootGone() const;

  SessionLog log_;
  RingDirectory rings_;
  probe::ProcessTree tree_;
  // What ProcessSeen told of a process, by pid and start time.
  struct Told {
    std::string name;
    std::string executable;
  };
  std::map<std::pair<uint32_t, uint64_t>, Told> known_;
  // Of those, the ones so far seen by their ring alone: who runs for less than a look at all processes takes.
  std::set<std::pair<uint32_t, uint64_t>> seen_by_ring_;
  std::set<uint32_t> member_pids_;
  bool members_current_ = false;
  uint64_t ring_event_count_ = 0;
  uint64_t dropped_count_ = 0;
  uint64_t failed_ring_count_ = 0;
  std::string ring_failure_;  // Why the last of those failed.
  bool hook_heard_ = false;
  bool saw_gpu_ = false;
  bool client_lost_ = false;
  bool root_ended_ = false;
  uint64_t finish_asked_ns_ = 0;
  uint64_t next_check_ns_ = 0;
  uint64_t next_look_ns_ = 0;
  uint64_t orphan_until_ns_ = 0;  // Not ended for want of a client before that.
  uint64_t linger_until_ns_ = 0;  // Late reports of its death may come until then.
  FinishReply finish_reply_;
  LogThrottle throttle_{60 * kNsPerSecond};
};

}  // namespace smeltr::daemon
