// A session found by reference and opened for reading: its metadata, its event files and how it stands.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/event_source.h"
#include "analysis/timeline.h"
#include "base/result.h"
#include "session/reader.h"
#include "session/store.h"

namespace smeltr::faces {

enum class SessionState : uint8_t {
  kLive,       // Still being recorded.
  kEnded,      // Closed by the daemon that recorded it.
  kRecovered,  // Its daemon was gone; a later one closed it.
  kWaiting,    // Its daemon is gone and its program still runs: the next one goes on.
  kCutOff,     // Its daemon died, and nobody has closed it.
};
// "live", "ended", "recovered", "waiting", "cut off".
std::string_view Name(SessionState state);
SessionState StateOf(const session::StoredSession& stored);

struct OpenedSession {
  session::StoredSession stored;
  SessionState state = SessionState::kEnded;
  // One a file: events.smlt, events-1.smlt ... Numbers are missing where files were deleted for --max-size.
  std::vector<session::Reader> readers;
  std::vector<std::string> problems;  // Files that could not be opened, in words.

  uint64_t event_count() const;
  uint64_t file_bytes() const;
  // From its first event to the end of what was recorded: evidence of a death may come later. Of a
  // post-mortem, what it covers.
  uint64_t duration_ns() const;
  analysis::SessionSource source() const;  // For as long as this lives.
  session::Damage damage() const;
  std::vector<session::KindCount> counts() const;  // By kind, then api.
};

// Opens all event files. Those that cannot be read become problems, not failures: the metadata remains.
OpenedSession OpenSession(session::StoredSession stored);

struct SessionChoice {
  std::string reference;
  bool last = false;
  bool include_ambient = false;
  bool default_to_last = false;  // No reference and no --last means the last.
};
// Finds and opens it. kInvalidArgument when the choice itself makes no sense; an explicit error when there
// are no sessions at all.
Result<OpenedSession> ChooseSession(const std::filesystem::path& sessions_directory,
                                    const SessionChoice& choice);

// What was lost on the way, by what events and metadata tell together.
struct LostCounts {
  uint64_t dropped = 0;  // Rings and sidecars were full.
  uint64_t storage = 0;  // The disk would not take them.
  uint64_t trimmed = 0;  // Deleted from the middle to stay below --max-size.
};
LostCounts LostEvents(const OpenedSession& session, const analysis::CaptureLoss& loss);

// "12,000 events of the middle were deleted to keep the session below 1 GiB (--max-size)"; empty without
// such.
std::string TrimmedText(const OpenedSession& session);

// Why a post-mortem was written: "crash: process 4711 ended by SIGSEGV", the label of a dump that was asked
// for; empty for other sessions.
std::string ReasonText(const session::Metadata& metadata);
// The same in a word or the label: "crash".
std::string ShortReason(const session::Metadata& metadata);
// How the recorded program ended: "exit 0", "SIGSEGV (core dumped)", "" while unknown.
std::string ExitText(const session::Metadata& metadata);
// The recorded command, or the name of the session's kind; quoted where needed.
std::string CommandText(const session::Metadata& metadata);

}  // namespace smeltr::faces
