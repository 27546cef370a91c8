// Text -> the events of a session, for tests and golden cases. One event a line:
//
//   <time> <verb> <arguments> [pid=N] [tid=N]          pid 100 and tid 1 unless said; # starts a comment
//
//   queue 1 compute                                     QueueInfo
//   scope+ 1 decode [parent=2] [class=Layer] [label] [.key=value ...]
//   scope- 1
//   eval+ 5 [stack=1,2]        eval- 5 [async]
//   commit 7 [q=1] [scope=1] [depth=0]
//                                                       depth 0: not told
//   done 7 [q=1] [gpu=100..140] [host=100..140] [inflight=40] [error=-4] [abandoned]
//   ops 7 matmul:30x2@1 softmax:10!profile :5 copy=copy:9     symbol:gpu_ns[xcount][@scope][!precision]
//   dropped CbOps 12   skipped no_timestamps 3 [detail]   storage 5 [reason]   resumed 2   hello   apierror
//   vkQueueSubmit -4 VK_ERROR_DEVICE_LOST device 1 Name   process /bin/prog [parent=1]   exit 0 [signal=9]
//   start   end [reason]
//
// Times are ns; the suffixes us, ms and s are understood, with decimals.
#pragma once

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "analysis/event_source.h"
#include "event/event.h"

namespace smeltr::fake {

class SessionBuilder final : public analysis::EventSource {
 public:
  // Throws std::invalid_argument naming the line that it does not understand: a broken test, not input.
  explicit SessionBuilder(std::string_view text);
  SessionBuilder(const SessionBuilder&) = delete;
  SessionBuilder& operator=(const SessionBuilder&) = delete;

  const std::vector<event::Event>& events() const { return events_; }

  void ForEachBatch(event::Kind kind, const VisitBatch& visit) const override;
  analysis::TimeRange range() const override;

 private:
  friend class LineParser;

  std::vector<event::Event> events_;
  // What the events point into; deques, so that growing moves nothing.
  std::deque<std::string> texts_;
  std::deque<std::vector<event::OpSample>> ops_;
  std::deque<std::vector<event::Attribute>> attributes_;
  std::deque<std::vector<uint64_t>> numbers_;
};

}  // namespace smeltr::fake
