// Watches events on the append path for incidents and writes what the flight recorder holds of their session
// as a session of its own: on a thread of its own, complete on disk before anybody hears of it. Everything
// here is called on the loop's thread; Host's functions are called there too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"
#include "daemon/flight_recorder.h"
#include "daemon/incident.h"
#include "event/event.h"
#include "session/metadata.h"
#include "util/log.h"

namespace smeltr::daemon {

// A post-mortem that is complete on disk.
struct WrittenDump {
  std::string source_session;
  std::string session_id;
  std::filesystem::path directory;
  std::string reason;  // The first trigger, in words.
  uint64_t event_count = 0;
  uint64_t begin_ns = 0;  // The time it covers.
  uint64_t end_ns = 0;
  uint32_t trigger_count = 0;
  uint64_t file_bytes = 0;
};

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
  ~PostMortems();

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

  bool busy() const;
  uint64_t written_count() const { return written_count_; }
  uint64_t suppressed_count() const { return incidents_.suppressed_count(); }

 private:
  class DumpThread;
  void NoteCandidate(std::string_view session_id, const event::Event& event, uint64_t now_ns);
  bool Belongs(std::string_view session_id, const Trigger& trigger, uint64_t now_ns);
  void NoteEvidence(std::string_view session_id, const event::Event& event, uint64_t now_ns);
  void Write(const Incident& incident, std::string_view label, uint64_t now_ns, Reply reply);
  void TakeResults(uint64_t now_ns);

  Host& host_;
  FlightRecorder& recorder_;
  std::filesystem::path sessions_directory_;
  IncidentLimits limits_;
  Incidents incidents_;
  std::set<std::string, std::less<>> gpu_sessions_;                      // That named a device.
  std::map<std::string, uint64_t, std::less<>> memory_evidence_ns_;      // By session.
  std::map<std::string, uint64_t, std::less<>> oom_counts_;              // Kernel's counters, by session.
  std::map<std::string, std::filesystem::path, std::less<>> last_dump_;  // By session.
  uint64_t written_count_ = 0;
  uint32_t requests_pending_ = 0;
  LogThrottle throttle_{60 * kNsPerSecond};
  std::unique_ptr<DumpThread> thread_;
};

// What Announce() appends. The event points into `dump`.
event::PostMortemFlushed MakeFlushedEvent(const WrittenDump& dump);
// Adds the dump's id to the metadata of a source that is closed already.
Result<void> LinkToSource(const std::filesystem::path& sessions_directory, const WrittenDump& dump);

}  // namespace smeltr::daemon
