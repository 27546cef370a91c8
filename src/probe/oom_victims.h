// Who an out-of-memory kill took, when only the group's counter tells of it: a recorded process that went at
// the same time. Not thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "probe/process_tree.h"

namespace smeltr::probe {

class OomVictims {
 public:
  // A reading of the recording's processes and of its group's counter. Returns the victims, if there are
  // just as many that ended as kills that were counted: else nobody can be named.
  std::vector<ProcessEntry> Update(uint64_t now_ns, const std::vector<ProcessTree::Member>& members,
                                   uint64_t oom_kill_count);

 private:
  struct Ended {
    ProcessEntry process;
    uint64_t noticed_ns = 0;
  };
  bool has_count_ = false;
  uint64_t count_ = 0;
  uint64_t unexplained_ = 0;
  uint64_t counted_ns_ = 0;
  std::vector<ProcessEntry> alive_;
  std::vector<Ended> ended_;
};

}  // namespace smeltr::probe
