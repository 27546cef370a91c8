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

using Request = std::variant<Hello, Reserve, Attach, Finish, Cancel>;

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
};

struct Refusal {
  ErrorCode code = ErrorCode::kIo;
  std::string text;
};

using Reply = std::variant<Ack, Welcome, Reserved, Finished, Refusal>;

std::string Encode(const Request& request);
std::string Encode(const Reply& reply);
// kUnsupported for an op that is not known, kInvalidArgument for anything else that is wrong with it.
Result<Request> DecodeRequest(std::string_view text);
Result<Reply> DecodeReply(std::string_view text);

}  // namespace smeltr::ipc
