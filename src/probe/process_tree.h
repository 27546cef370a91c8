// Which processes belong to a recording: the root, its descendants, and whoever carries its token in the
// environment (daemonised grandchildren whose parents are gone). Members stay members when re-parented.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "probe/probe.h"

namespace smeltr::probe {

struct ProcessEntry {
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  uint64_t start_time_ticks = 0;  // With pid, the identity.
  uint32_t uid = 0;
  uint64_t cpu_ticks = 0;  // User and system, since its start.
  uint32_t thread_count = 0;
  char state = '?';  // 'Z' and 'X' are dead.
  std::string name;  // As the kernel has it, cut at 15 characters.
};

// Ended, even if it is still listed. A first thread that is gone alone shows as a zombie too.
inline bool IsDead(const ProcessEntry& process) {
  return process.state == 'X' || (process.state == 'Z' && process.thread_count <= 1);
}

// Every process of the machine that may be seen, by one pass over /proc (or its like), in any order.
// `proc_root` is for tests; systems without /proc ignore it.
std::vector<ProcessEntry> ListProcesses(const std::string& proc_root = "/proc");

enum class EnvironmentAnswer : uint8_t {
  kHas,
  kHasNot,  // Or it may not be read.
  kEmpty,   // A kernel thread has none, and for a moment nobody who is executing a program.
};
// Whether the environment that the process was started with has `entry`, a whole "NAME=value".
EnvironmentAnswer AskEnvironment(const std::string& proc_root, uint32_t pid, std::string_view entry);

class ProcessTree {
 public:
  explicit ProcessTree(Recorded recorded, std::string proc_root = "/proc")
      : recorded_(std::move(recorded)), proc_root_(std::move(proc_root)) {}

  struct Member {
    ProcessEntry process;
    bool is_root = false;
  };
  struct Change {
    std::vector<Member> joined;
    std::vector<Member> left;  // Ended, as they were last seen.
  };
  // `processes` as of now.
  Change Update(const std::vector<ProcessEntry>& processes);

  // Alive at the last Update(), the root first.
  const std::vector<Member>& members() const { return members_; }

 private:
  using Identity = std::pair<uint32_t, uint64_t>;  // Pid and time of start.
  bool CarriesToken(const ProcessEntry& process);
  void ForgetEnded(const std::vector<ProcessEntry>& processes);

  Recorded recorded_;
  std::string proc_root_;
  std::vector<Member> members_;
  // Who was asked for the token already and found without, with how often more to ask those whose
  // environment was empty. About as many as there are processes.
  std::map<Identity, uint8_t> asked_;
};

}  // namespace smeltr::probe
