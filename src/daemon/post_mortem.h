// Watches events on the append path for incidents and writes what the flight recorder holds of their session
// as a session of its own: on a thread of its own, complete on disk before anybody hears of it. Everything
// here is called on the loop's thread; Host's functions are called there too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/dump_writer.h"
#include "daemon/flight_recorder.h"
#include "daemon/incident.h"
#include "event/event.h"
#include "session/metadata.h"
#include "util/log.h"

namespace smeltr::daemon {

class PostMortems {
 public:
  class Host {
   public:
    virtual ~Host() = default;
    // Seals what the session has pending, so that the flight recorder has it. Any of these may name a session
    // that is closed by now.
    virtual void FlushSession(std::string_view session_id) = 0;
    virtual std::optional<session::Metadata> SessionMetadata(std::string_view session_id) = 0;
    virtual bool IsMember(std::string_view session_id, uint32_t pid) = 0;
    virtual bool HasScopedSessions() = 0;
    // Appends PostMortemFlushed (MakeFlushedEvent) to the session, if it is open, and to the ambient one, and
    // notes the dump in the source's metadata (LinkToSource if it is closed).
    virtual void Announce(const WrittenDump& dump) = 0;
  };
  using Reply = std::function<void(const Result<WrittenDump>&)>;

  // `host` and `recorder` outlive it.
  PostMortems(Host& host, FlightRecorder& recorder, std::filesystem::path sessions_directory,
              const IncidentLimits& limits = {});
  PostMortems(const PostMortems&) = delete;
  PostMortems& operator=(const PostMortems&) = delete;

  // Every event, right after it was appended to the session.
  void Note(std::string_view session_id, const event::Event& event, uint64_t now_ns) {
    if (MayTrigger(event.payload)) NoteCandidate(session_id, event, now_ns);
  }
  // A dump on demand, at once. `reply` is called, once, by a later Poll() or Shutdown(), or before this
  // returns when nothing can be written.
  void Request(std::string_view session_id, std::string_view label, uint64_t now_ns, Reply reply);
  // Before the session's writer is closed: what is open of it is written without further waiting.
  void SessionClosing(std::string_view session_id, uint64_t now_ns);
  // Every 100 ms or so while busy(), else every second.
  void Poll(uint64_t now_ns);
  // Writes what is open and waits for the writer until `deadline_ns`; nothing is announced afterwards.
  void Shutdown(uint64_t deadline_ns);

  // An incident is open, or something is being written.
  bool busy() const { return !incidents_.idle() || thread_.busy(); }
  bool writing() const { return thread_.busy(); }
  uint64_t written_count() const { return written_count_; }
  uint64_t suppressed_count() const { return incidents_.suppressed_count(); }

 private:
  struct Pending {
    std::string source_session;
    Reply reply;  // Empty for incidents.
  };
  void NoteCandidate(std::string_view session_id, const event::Event& event, uint64_t now_ns);
  void NoteEvidence(std::string_view session_id, const event::Event& event, uint64_t now_ns);
  bool MemoryWasShort(std::string_view session_id, uint64_t now_ns) const;
  bool Belongs(std::string_view session_id, const Trigger& trigger, uint64_t now_ns);
  void Write(const Incident& incident, std::string_view label, uint64_t now_ns, Reply reply);
  void UpdateGrown(const std::vector<Incident>& grown);
  void TakeFinished(uint64_t now_ns);

  struct SessionFacts {
    bool uses_gpu = false;
    uint64_t memory_short_ns = 0;               // When that was last seen; 0 = never.
    std::map<std::string, uint64_t> oom_kills;  // The kernel's counters, by cgroup.
    std::filesystem::path last_dump;            // Of an incident.
  };

  Host& host_;
  FlightRecorder& recorder_;
  std::filesystem::path sessions_directory_;
  Incidents incidents_;
  std::map<std::string, SessionFacts, std::less<>> facts_;  // Of open sessions.
  std::map<uint64_t, Pending> pending_;                     // By the dump's number.
  uint64_t written_count_ = 0;
  LogThrottle throttle_{60 * kNsPerSecond};
  DumpThread thread_;
};

// What Announce() appends. The event points into `dump`.
event::PostMortemFlushed MakeFlushedEvent(const WrittenDump& dump);
// Adds the dump's id to the metadata of its source; the other, on disk, is for one that is closed already.
void LinkDump(session::Metadata& source, const WrittenDump& dump);
Result<void> LinkToSource(const std::filesystem::path& sessions_directory, const WrittenDump& dump);

}  // namespace smeltr::daemon
