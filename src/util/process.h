// What the system tells about a process.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>

#include "base/result.h"

namespace smeltr {

struct ProcessFacts {
  uint32_t parent_pid = 0;
  uint64_t start_time_ticks = 0;  // With the pid, the process's identity: pids are reused.
  char state = '?';               // 'Z' and 'X' are dead.
};

// kNotFound when there is no such process.
Result<ProcessFacts> ReadProcessFacts(pid_t pid);
// Path of its executable; empty when it cannot be told.
std::string ProcessExecutable(pid_t pid);
// One per boot of the machine: times of the session clock are comparable only within it.
std::string BootId();
std::string HostName();

}  // namespace smeltr
