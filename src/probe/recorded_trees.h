// The processes of all recordings, for every probe that looks at them: one pass over the machine's processes
// serves those that read at the same moment. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "probe/probe.h"
#include "probe/process_tree.h"

namespace smeltr::probe {

struct TreeSnapshot {
  struct Tree {
    std::string session_id;
    std::vector<ProcessTree::Member> members;  // The root first, while it lives.
  };
  uint64_t taken_ns = 0;
  std::vector<Tree> trees;  // In the order of the context's recordings.

  const Tree* Find(std::string_view session_id) const;
};

class RecordedTrees {
 public:
  explicit RecordedTrees(std::string proc_root = "/proc") : proc_root_(std::move(proc_root)) {}
  // As of now or a moment ago.
  std::shared_ptr<const TreeSnapshot> Get(const Context& context);

 private:
  bool Serves(const Context& context) const;

  std::mutex mutex_;
  std::string proc_root_;
  std::map<std::string, ProcessTree, std::less<>> trees_;
  std::shared_ptr<const TreeSnapshot> last_;
};

}  // namespace smeltr::probe
