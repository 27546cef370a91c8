// What is said over the daemon's socket: one JSON object a message, one reply a request, in order.
//
//   {"op": "Hello", ...} -> {"reply": "Welcome", ...} or {"reply": "Error", "code": ..., "text": ...}
//
// Hello comes first. An unknown op or a field of the wrong type is answered with an Error and the
// connection goes on; only broken framing (connection.h) ends it. Unknown fields are ignored, so that
// either side may be the newer one within a protocol version.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace smeltr::ipc {

inline constexpr uint32_t kProtocolVersion = 1;

// --- requests ---
struct Hello {
  uint32_t protocol_min = kProtocolVersion;
  uint32_t protocol_max = kProtocolVersion;
  std::string role;  // "record", for the log.
};

// A session for the recording `token`, before the program runs. One token, one session.
struct Reserve {
  std::string token;  // UUID text.
  std::string name;   // Empty = none.
  std::vector<std::string> argv;
  std::string cwd;
  uint64_t max_size_bytes = 0;       // Of its events on disk, the newest kept; 0 = the daemon's setting.
  uint64_t footprint_period_ms = 0;  // 0 = the daemon's setting.
};

// The program exists, held before its first instruction.
struct Attach {
  std::string session_id;
  uint32_t pid = 0;
  uint64_t start_time_ticks = 0;
  std::string hook_state;   // "requested" or "skipped"
  std::string hook_reason;  // Why skipped, or why it may stay silent.
};

// The program ended (it has been waited for). The reply comes after a complete drain of what the ended
// processes of the recording left, at most kFinishLimitMs later.
struct Finish {
  std::string session_id;
  std::optional<int> exit_code;
  std::optional<int> term_signal;
  bool core_dumped = false;
  uint64_t max_rss_bytes = 0;
  uint64_t user_cpu_ns = 0;
  uint64_t system_cpu_ns = 0;
};
inline constexpr int kFinishLimitMs = 5000;

// The program never ran: forget the session and remove its directory.
struct Cancel {
  std::string session_id;
};

// A record whose daemon died has found the next one: the recording is this connection's again.
struct Resume {
  std::string session_id;
};

// A moment worth finding again. The three lists are one field an element.
struct Mark {
  std::string session_id;  // Empty: the newest recording, else the ambient session.
  std::string label;
  std::vector<std::string> field_keys;
  std::vector<std::string> field_types;  // "bool", "int", "float", "string" (event::AttributeType).
  std::vector<std::string> field_values;
};

struct Status {};

// The daemon ends in good order; the reply comes before it does.
struct Shutdown {};

// Events as they are appended, from now on. The reply is Subscribed; after it the daemon sends what
// stream.h has, and answers nothing else on this connection.
struct Subscribe {
  std::vector<std::string> session_ids;  // Empty: all, those that open later included.
  std::vector<std::string> kinds;        // Full kind names; empty: all.
  std::vector<uint32_t> pids;            // Empty: all.
};

// Writes what the flight recorder holds of a session as a post-mortem, now.
struct Dump {
  std::string session_id;  // Empty: the newest recording, else the ambient session.
  std::string label;       // Why, for people.
};

using Request =
    std::variant<Hello, Reserve, Attach, Finish, Cancel, Resume, Mark, Status, Shutdown, Subscribe, Dump>;

// --- replies ---
struct Ack {};

struct Welcome {
  uint32_t protocol = 0;
  std::string daemon_version;
  uint32_t daemon_pid = 0;
  std::string home;
};

struct Reserved {
  std::string session_id;
  std::string short_id;
  std::string session_directory;
  std::string ring_directory;
};

struct Finished {
  uint64_t event_count = 0;  // From the recorded processes.
  uint64_t dropped_count = 0;
  uint64_t storage_lost_count = 0;
  uint32_t process_count = 0;       // That opened a ring.
  uint32_t live_process_count = 0;  // Still running: the session stays open for them.
  bool drained = true;              // False: the limit came first.
  std::string hook_state;           // "injected", "skipped", "requested-but-silent"
  bool saw_gpu = false;             // Any event of a GPU interface.
  uint64_t failed_ring_count = 0;   // Of programs that could not be recorded, for want of a ring.
  std::string ring_failure;         // Why the last of those could have none.
};

struct Marked {
  std::string session_id;
  std::string short_id;
  std::string kind;  // "scoped" or "ambient"
};

struct RecordingStatus {
  std::string session_id;
  std::string short_id;
  std::string kind;
  std::string name;
  std::string command;
  std::string state;  // "reserved", "recording", "ending" (the root has ended, others have not), "paused"
  uint32_t root_pid = 0;
  uint32_t process_count = 0;  // Alive now.
  uint64_t event_count = 0;
  uint64_t dropped_count = 0;
  uint64_t storage_lost_count = 0;
  uint64_t started_mono_ns = 0;
};

struct ProbeStatus {
  std::string name;
  std::string health;  // "starting", "ok", "degraded", "failed"
  std::string reason;
  uint64_t readings = 0;
  double cost_pct = 0;  // Of one core.
};

struct StatusReport {
  std::string daemon_version;
  uint32_t daemon_pid = 0;
  std::string home;
  std::string managed_by;  // "systemd", "launchd", empty: started by a command.
  uint64_t uptime_ns = 0;
  uint64_t resident_bytes = 0;
  uint64_t cpu_ns = 0;
  uint32_t subscriber_count = 0;
  uint32_t connection_count = 0;
  uint64_t flight_recorder_bytes = 0;
  uint64_t flight_recorder_ns = 0;  // How far back it goes.
  uint64_t post_mortem_count = 0;   // Written since the start.
  uint64_t suppressed_count = 0;    // Incidents within the cool-down or over the limit.
  bool storage_paused = false;      // The disk refuses events just now.
  std::vector<RecordingStatus> sessions;
  std::vector<ProbeStatus> probes;
};

struct Subscribed {
  std::vector<std::string> session_ids;  // Open and matching now.
  std::vector<uint64_t> next_seqs;       // Of each of them.
};

struct Dumped {
  std::string session_id;
  std::string short_id;
  std::string session_directory;
  uint64_t event_count = 0;
};

struct Refusal {
  ErrorCode code = ErrorCode::kIo;
  std::string text;
};

using Reply =
    std::variant<Ack, Welcome, Reserved, Finished, Marked, StatusReport, Subscribed, Dumped, Refusal>;

// --- notices: what a subscriber gets besides events (stream.h), each {"notice": "...", ...} ---
// Events were dropped for this subscriber, which was too slow, between these two, both included.
struct Gap {
  std::string session_id;
  uint64_t first_missing_seq = 0;
  uint64_t last_missing_seq = 0;
  uint64_t count = 0;  // Of those that its filter lets through.
};

struct SessionOpened {
  std::string session_id;
  std::string short_id;
  std::string kind;
  std::string name;
};

struct SessionClosed {
  std::string session_id;
  std::string end_reason;
  uint64_t last_seq = 0;
};

// Every few seconds of silence: it lives, and this is where the sessions stand.
struct Heartbeat {
  std::vector<std::string> session_ids;
  std::vector<uint64_t> last_seqs;
};

// The last message: why the stream ends.
struct Goodbye {
  std::string reason;
};

using Notice = std::variant<Gap, SessionOpened, SessionClosed, Heartbeat, Goodbye>;

std::string Encode(const Request& request);
std::string Encode(const Reply& reply);
// kUnsupported for an op that is not known, kInvalidArgument for anything else that is wrong with it.
std::string Encode(const Notice& notice);
Result<Request> DecodeRequest(std::string_view text);
Result<Reply> DecodeReply(std::string_view text);
Result<Notice> DecodeNotice(std::string_view text);

}  // namespace smeltr::ipc
