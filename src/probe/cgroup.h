// The memory limits that recorded processes live under, on Linux: CgroupMemory of each recording's control
// group (v2, else v1), and OomKill when the group counts a kill whose victim can be named.
//
// The counters are those of the whole group: without one of its own, a recording shares them with whatever
// else runs there. limit_bytes is the tightest limit up the hierarchy, 0 when there is none.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "probe/probe.h"
#include "probe/recorded_trees.h"
#include "probe/roots.h"

namespace smeltr::probe {

struct CgroupFigures {
  uint64_t current_bytes = 0;
  uint64_t limit_bytes = 0;  // 0: none.
  uint64_t peak_bytes = 0;
  uint64_t high_bytes = 0;
  uint64_t swap_bytes = 0;
  uint64_t oom_count = 0;
  uint64_t oom_kill_count = 0;
  uint64_t max_count = 0;
};

// Where a process's memory is accounted.
struct CgroupPlace {
  std::string directory;  // Below the mount point, or the mount point itself.
  std::string mount;
  std::string name;  // As /proc/<pid>/cgroup has it.
  bool is_v2 = false;
};

// nullopt when neither version accounts it, or it is in a root group, which has no counters in v2.
std::optional<CgroupPlace> FindCgroup(const Roots& roots, uint32_t pid);
// nullopt when the group is gone.
std::optional<CgroupFigures> ReadCgroup(const CgroupPlace& place);

std::unique_ptr<Probe> MakeCgroupProbe(std::shared_ptr<RecordedTrees> trees, const Roots& roots = {});

}  // namespace smeltr::probe
