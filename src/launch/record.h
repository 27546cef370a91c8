// `smeltr record`: runs a program so that what it does on the GPU becomes a session.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "util/paths.h"

namespace smeltr::launch {

inline constexpr int kExitOwnFailure = 125;
inline constexpr int kExitNotExecutable = 126;
inline constexpr int kExitNotFound = 127;

struct RecordOptions {
  std::vector<std::string> argv;  // The program and its arguments; not empty.
  std::string session_name;       // Valid or empty.
  bool gpu_hook = true;
  bool require = false;              // Rather not run the program at all than unrecorded.
  bool quiet = false;                // No line about what was recorded; warnings stay.
  uint64_t max_size_bytes = 0;       // Of the session, the newest events kept; 0: as the daemon is set.
  uint64_t footprint_period_ms = 0;  // 0: as the daemon is set.
  std::filesystem::path daemon_program;
};

// Runs the program to its end and returns the status to exit with: the program's own, 128 + signal when it
// was killed by one, 127 when there is no such command, 126 when it cannot be executed, and 125 with
// `require` when it could not be recorded. Everything that goes wrong with recording is one line on stderr.
int Record(const RecordOptions& options);

}  // namespace smeltr::launch
