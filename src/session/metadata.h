// metadata.toml: what is known about a session besides its events. Written as temp file + fsync + rename;
// readers tolerate missing keys and rewriting keeps unknown ones (forward compatibility).
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smeltr::session {

enum class SessionKind { kAmbient, kScoped, kPostMortem };
// "ambient", "scoped", "post-mortem".
std::string_view Name(SessionKind kind);

// What a post-mortem was written for.
struct TriggerNote {
  std::string trigger_class;  // "gpu-error", "crash" ...
  std::string text;
  uint64_t ts_ns = 0;
  friend bool operator==(const TriggerNote&, const TriggerNote&) = default;
};

struct Metadata {
  std::string session_id;  // UUID, dashed, lower case.
  SessionKind kind = SessionKind::kScoped;
  std::string name;             // Empty = none.
  std::string started_rfc3339;  // UTC.
  std::string ended_rfc3339;    // Empty = still open, or cut off.
  uint64_t start_mono_ns = 0;   // Session clock at the start: display subtracts it.
  std::string boot_id;
  std::string host;
  std::vector<std::string> argv;  // The recorded command.
  std::string cwd;
  uint32_t root_pid = 0;
  uint64_t root_start_time_ticks = 0;  // With root_pid, the identity of the recorded process.
  std::string scope_token;
  std::optional<int> exit_code;  // Absent while running, after a signal death, or when nobody saw it.
  std::optional<int> term_signal;
  bool core_dumped = false;
  uint64_t max_rss_bytes = 0;  // Of the recorded process, known at its end; 0 = not known.
  uint64_t user_cpu_ns = 0;
  uint64_t system_cpu_ns = 0;
  uint64_t end_mono_ns = 0;  // Session clock when its last process had ended; 0: nobody saw that.
  std::string end_reason;    // exit, signal, client-lost, daemon-shutdown, recovered; empty while open.
  std::string hook_state;    // injected, skipped, requested-but-silent
  std::string hook_reason;
  std::string source_session_id;  // Of a post-mortem: the session it is about.
  std::string smeltr_version;
  std::map<std::string, uint64_t> event_counts;    // By full kind name; filled at the end.
  std::map<std::string, uint64_t> dropped_counts;  // Lost in rings, by kind name.
  uint64_t storage_lost_count = 0;                 // Lost because the disk would not take them.
  uint64_t corrupt_frames = 0;
  uint64_t max_size_bytes = 0;       // Its events were kept below that; 0: no limit.
  uint64_t trimmed_event_count = 0;  // Deleted from the middle to stay below a size.
  uint64_t trimmed_files = 0;
  std::vector<std::string> post_mortems;  // Ids of those about this session.
  // Of a post-mortem, as is source_session_id:
  std::vector<std::string> related_sessions;  // Sessions that were open when the daemon crashed.
  std::vector<TriggerNote> triggers;          // The first ones.
  uint64_t trigger_count = 0;                 // All of them.
  uint64_t covered_begin_ns = 0;              // Session clock.
  uint64_t covered_end_ns = 0;
  uint64_t recorder_evicted_count = 0;  // Events of that time which the flight recorder had no room for.
  // Of a session that was not recorded here; its age counts from then (retention.h).
  std::string imported_rfc3339;
  std::string imported_from;              // The file or directory.
  std::string imported_format;            // "Rust smeltr, chunked", "torch.profiler" ...
  std::vector<std::string> import_notes;  // What was lost on the way, and what was not understood.
  // Of a session that was repaired (repair.h):
  std::string repaired_rfc3339;
  std::string repaired_from_id;           // The session it is a copy of; empty when it was repaired in place.
  uint64_t repair_lost_count = 0;         // Events of event_counts that were damaged.
  std::vector<std::string> repair_notes;  // What was damaged; the first ones.
};

// The short id: the first 8 hex digits of the session id, also the end of the directory's name.
std::string ShortId(const Metadata& metadata);

Result<Metadata> ReadMetadata(const std::filesystem::path& directory);
// False when the file is not as WriteMetadata() left it: damaged, or edited by hand. Its last line tells, a
// comment with a checksum of what stands before; files of older writers have none and count as unchanged.
Result<bool> MetadataIsUnchanged(const std::filesystem::path& directory);
Result<void> WriteMetadata(const std::filesystem::path& directory, const Metadata& metadata);

}  // namespace smeltr::session
