// What became of command buffers whose completion is not in the session. A process that dies takes the last
// ones with it, those that had completed but were not read yet among them; of a session that was cut, many
// are gone. Only what may really have been in flight is to be listed as that.
#pragma once

#include <cstdint>
#include <vector>

#include "analysis/event_source.h"
#include "analysis/timeline.h"

namespace smeltr::analysis {

// Each submission tells how many of its queue were in flight, itself included: when the last one was made,
// all older than so many had completed.
class FateFinder {
 public:
  explicit FateFinder(Timeline& timeline) : t_(timeline) {}
  // Sets fate and counts of the command buffers that are not complete.
  void Run(const EventSource& source);

 private:
  struct Submission {
    uint64_t commit_ns = 0;
    uint64_t id = 0;
    uint32_t depth = 0;
  };
  struct QueueEnd {
    bool wanted = false;  // Something of it is not complete.
    std::vector<Submission> newest;
    uint64_t in_flight_from_ns = 0;  // What was committed before had completed.
  };
  void Note(QueueEnd& queue, const Submission& submission);
  static void KeepNewest(std::vector<Submission>& submissions);

  Timeline& t_;
  std::vector<QueueEnd> queues_;
};

}  // namespace smeltr::analysis
