// Second pass over a trace: its records, in the order of time, as our events.
//
//   scope     ModuleEntered, ModuleReturned; of annotations, operators and Python functions alike
//   launch    kept until the GPU work it started shows up, with the innermost open scope of its thread; calls
//             that wait for the GPU for long become HostWait
//   GPU work  CbCommitted at its launch, CbCompleted at its end, CbOps with its one op; the stream in the
//             launching process is the queue. Kernels of one graph launch share a submission. Work without a
//             launch in the trace has no commit and no scope
//   memory    BufferAlloc, BufferFree, DeviceMemSample
//   others    instants and counters become Marks
//
// Memory: what is open (scopes, allocations) and the last kMaxLaunches launches, of which most start nothing.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "event/event.h"
#include "session/import_notes.h"
#include "session/import_trace_collect.h"
#include "session/import_trace_record.h"
#include "session/writer.h"

namespace smeltr::session {

class TraceEvents {
 public:
  static constexpr size_t kMaxLaunches = size_t{1} << 20;
  static constexpr size_t kMaxOpen = size_t{1} << 20;     // Scopes, and allocations.
  static constexpr size_t kMaxWaiting = size_t{1} << 16;  // GPU work seen before its launch.
  static constexpr uint64_t kLongWaitNs = 1'000'000;      // As the hooks have it.

  // Both must outlive it. `shift_ns` is added to the trace's times.
  TraceEvents(const TraceFacts& facts, int64_t shift_ns, Writer& writer)
      : facts_(facts), shift_ns_(shift_ns), writer_(writer) {}

  void Add(const TraceRecord& record);
  // Closes what is open. Call once, at the end.
  void Finish(ImportNotes& notes);

 private:
  using Lane = std::pair<uint32_t, uint32_t>;  // pid, tid
  struct OpenScope {
    event::ScopeId id{};
    uint64_t end_ns = 0;
    size_t name_hash = 0;
  };
  struct Launch {
    uint64_t ts_ns = 0;
    uint32_t pid = 0;
    uint32_t tid = 0;
    event::ScopeId scope_id{};
    bool graph = false;
    uint64_t serial = 0;
  };
  struct Queue {
    event::QueueId id{};
    std::deque<uint64_t> ends_ns;  // Of what was done on it lately.
  };
  struct Device {
    int64_t allocated_bytes = 0;
  };
  // GPU work that waits for its launch.
  struct Work {
    TraceNumbers numbers;
    std::string name;
    std::string label;
  };

  void Enter(const TraceRecord& record, uint64_t end_ns);
  void Leave(const TraceRecord& record);
  // The scopes of the lane that are open at `ts_ns`, the ended ones returned.
  std::vector<OpenScope>& OpenAt(const Lane& lane, uint64_t ts_ns);
  event::ScopeId Innermost(const TraceNumbers& numbers);
  void OnLaunch(const TraceRecord& record);
  void OnDevice(const TraceRecord& record);
  void Complete(const TraceNumbers& numbers, std::string_view name, std::string_view label,
                const Launch* launch);
  void StoreOp(const event::Envelope& envelope, event::CbId cb_id, const TraceNumbers& numbers,
               std::string_view name);
  void OnMemory(const TraceRecord& record);
  Queue& QueueFor(uint32_t pid, const TraceNumbers& numbers);
  void DescribeDevice(uint32_t pid, uint32_t device, uint64_t ts_ns);
  void Return(const Lane& lane, const OpenScope& scope);
  uint64_t At(int64_t trace_ns) const { return static_cast<uint64_t>(trace_ns + shift_ns_); }
  void Append(uint64_t ts_ns, const Lane& lane, event::Api api, const event::Payload& payload);

  const TraceFacts& facts_;
  int64_t shift_ns_;
  Writer& writer_;
  uint64_t last_id_ = 0;
  uint64_t last_ns_ = 0;
  std::map<Lane, std::vector<OpenScope>> open_;
  size_t open_count_ = 0;
  std::unordered_map<uint64_t, Launch> launches_;           // By correlation.
  std::deque<std::pair<uint64_t, uint64_t>> launch_order_;  // Correlation and serial.
  uint64_t launch_serial_ = 0;
  std::multimap<uint64_t, Work> waiting_;
  std::map<std::array<uint64_t, 3>, Queue> queues_;                   // By pid, device, stream.
  std::map<std::pair<uint32_t, uint32_t>, Device> devices_;           // By pid, device.
  std::map<std::pair<uint32_t, uint64_t>, event::BufferId> buffers_;  // By device, address.
  std::map<uint32_t, uint32_t> pid_of_device_;  // The last that launched something there.
  std::map<uint32_t, uint64_t> seen_pids_;
  uint64_t unlaunched_count_ = 0;
  uint64_t not_kept_count_ = 0;
};

}  // namespace smeltr::session
