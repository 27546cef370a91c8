// A tool of the system, run to its end for what it says.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace smeltr::launch {

struct ToolResult {
  int status = 0;      // As a shell has it.
  std::string output;  // stdout and stderr together; the first 64 KiB.
};

// Found through PATH, with stdin empty. kNotFound when there is no such tool, kUnavailable when it is not
// done within the limit; it is killed then.
Result<ToolResult> RunTool(const std::vector<std::string>& argv, int limit_ms);

}  // namespace smeltr::launch
