// Where Linux puts what is left of a crashed process, told from core_pattern, file names and the reports of
// crash collectors.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smeltr::crash {

enum class CoreHandler : uint8_t {
  kNone,  // Empty pattern: no core files at all.
  kPath,
  kSystemdCoredump,
  kApport,
  kAbrt,
  kOtherPipe,
};

struct CorePattern {
  CoreHandler handler = CoreHandler::kNone;
  std::string text;       // The pattern itself.
  std::string directory;  // kPath: where files appear; empty: each process's working directory.
  std::string name;       // kPath: the last part, % specifiers in it.
};
// The content of /proc/sys/kernel/core_pattern.
CorePattern ParseCorePattern(std::string_view text);

// What a core file's name tells; empty and 0 for the rest.
struct CoreFile {
  std::string comm;
  std::string executable;  // Path, from %E.
  uint32_t uid = 0;
  uint32_t pid = 0;
  uint32_t signal = 0;
  uint64_t unix_ns = 0;
  std::string boot_id;  // 32 hex digits.
};

// "core.<comm>.<uid>.<boot id>.<pid>.<us>", perhaps with .zst, .lz4 or .xz behind it.
std::optional<CoreFile> ParseSystemdCoreName(std::string_view file_name);

// Whether the kernel may have made `file_name` from the pattern, and what it put in. With `append_pid`
// (kernel.core_uses_pid) the name may end in ".pid".
std::optional<CoreFile> MatchCoreName(const CorePattern& pattern, bool append_pid,
                                      std::string_view file_name);

// A process's end as a collector reports it.
struct CollectedCrash {
  std::string executable;
  std::string process_name;
  uint32_t pid = 0;
  uint32_t signal = 0;
  uint64_t unix_ns = 0;
  std::string summary;
  std::vector<std::string> frames;  // Innermost first, at most 10.
};

// An apport report, /var/crash/_usr_bin_x.1000.crash: "Key: value", values continued on indented lines.
// kUnsupported for reports of other problems (package installation, kernel), kUnavailable when not complete.
Result<CollectedCrash> ParseApportReport(std::string_view text);

}  // namespace smeltr::crash
