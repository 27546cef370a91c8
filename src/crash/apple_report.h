// The .ips files of macOS: crash reports, and the reports of the memory killer (jetsam). A header of one
// line, then a body, both JSON.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace smeltr::crash {

struct AppleCrash {
  std::string process_name;
  uint32_t pid = 0;
  std::string signal;  // "SIGSEGV"; empty when it was none.
  // As the exception has them, then those that its subtype names in parentheses.
  std::vector<int64_t> exception_codes;
  // Exception, why it was ended, and what the program or a framework left as last words (Metal's errors
  // are among them).
  std::string summary;
  std::vector<std::string> frames;  // Of the faulting thread, innermost first, at most 10.
};

struct JetsamVictim {
  std::string process_name;
  uint32_t pid = 0;
  uint64_t footprint_bytes = 0;
  uint64_t lifetime_max_bytes = 0;
  std::string reason;  // "per-process-limit", "vm-pageshortage" ...
};

struct AppleJetsam {
  uint64_t page_size_bytes = 0;
  std::vector<JetsamVictim> victims;  // Those marked as killed; the largest process is not one by itself.
};

struct AppleReport {
  std::string bug_type;     // "309" and "385" crashes, "298" jetsam.
  std::string incident_id;  // Empty in none that is whole.
  uint64_t report_unix_ns = 0;
  // Neither: a report about something else (a hang, a panic).
  std::variant<std::monostate, AppleCrash, AppleJetsam> body;
};

// kUnavailable while the file is not complete: read it again when it has changed.
Result<AppleReport> ParseAppleReport(std::string_view text);

// "2024-06-08 16:01:19.1353 -0700" -> Unix ns; 0 when it is not one.
uint64_t ParseAppleTime(std::string_view text);

}  // namespace smeltr::crash
