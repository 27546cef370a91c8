// One line of `log stream --style ndjson` on macOS.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smeltr::crash {

struct AppleLogLine {
  uint64_t wall_unix_ns = 0;
  std::string subsystem;
  std::string category;
  std::string message;
  std::string process_name;
  uint32_t pid = 0;
  uint32_t priority = 5;  // syslog's, from the message type: 3 Fault and Error, 5 Default, 6 Info, 7 Debug.
};

// kCorrupt for what is no entry, such as the line about the filter that comes first.
Result<AppleLogLine> ParseAppleLogLine(std::string_view json);

}  // namespace smeltr::crash
