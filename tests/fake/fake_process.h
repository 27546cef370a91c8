// Processes in a test's own /proc.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "fake/file_tree.h"

namespace smeltr::fake {

struct FakeProcess {
  uint32_t pid = 0;
  uint32_t parent_pid = 1;
  uint64_t start_time_ticks = 100;
  std::string name = "program";
  char state = 'S';
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  uint32_t thread_count = 1;
  std::string environment{};  // Entries, each with its NUL.
};

inline void Write(const FileTree& tree, const FakeProcess& process) {
  const std::string at = fmt::format("proc/{}/", process.pid);
  tree.Write(at + "stat",
             fmt::format("{} ({}) {} {} 1 1 0 -1 4194560 1 0 0 0 {} {} 0 0 20 0 {} 0 {} 1000 10 "
                         "18446744073709551615 1 1 0 0\n",
                         process.pid, process.name, process.state, process.parent_pid, process.user_ticks,
                         process.system_ticks, process.thread_count, process.start_time_ticks));
  tree.Write(at + "environ", process.environment);
}

}  // namespace smeltr::fake
