// Which processes belong to a recording: the root, its descendants, and whoever carries its token in the
// environment (daemonised grandchildren whose parents are gone). Members stay members when re-parented.
// Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <string>
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

// Every process of the machine that may be seen, by one pass over /proc (or its like).
std::vector<ProcessEntry> ListProcesses();

class ProcessTree {
 public:
  explicit ProcessTree(Recorded recorded) : recorded_(std::move(recorded)) {}

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
  bool CarriesToken(const ProcessEntry& process);

  Recorded recorded_;
  std::vector<Member> members_;
  // Who was asked for the token already, and found without.
  std::map<std::pair<uint32_t, uint64_t>, bool> asked_;
};

}  // namespace smeltr::probe
