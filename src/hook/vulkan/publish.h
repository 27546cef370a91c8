// From completed command buffers to events: their times, and how those are shared out over their ops.
// Used by one thread at a time (Poller::looking_).
#pragma once

#include <array>
#include <unordered_map>

#include "hook/core/op_timing.h"
#include "hook/vulkan/query_batch.h"
#include "hook/vulkan/recording.h"
#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

// Whether the queries of `cb`, complete, may be needed for another run at any time. Who holds them then keeps
// the program's thread waiting.
bool MayRunAgain(const TrackedCb& cb);

class Publisher {
 public:
  explicit Publisher(Device& device);

  // Every second or so: keeps the device's clock and the session's together.
  void Calibrate(uint64_t now_ns);
  // Where reading blocks: the timestamps of the oldest of `queue`, of those complete up to submission
  // `completed`, all together. Stops before one that may be submitted again meanwhile. How many can be
  // published before it is needed again.
  uint32_t ReadAhead(Queue& queue, uint64_t completed);
  // `cb`, the oldest of `queue`, was seen complete. Without `may_read` its timestamps are left alone, unless
  // they were read ahead.
  void Publish(Queue& queue, const TrackedCb& cb, bool may_read);
  // It will not complete.
  void PublishFailed(Queue& queue, const TrackedCb& cb, event::CbStatus status, VkResult error,
                     uint64_t now_ns);
  void WarnSlow(Queue& queue, const TrackedCb& cb, uint64_t now_ns);

 private:
  struct Times {
    GpuSpan span;  // As the program without us would have had it.
    bool measured = false;
    bool sampled = false;
  };

  // The pair of that run; with `points` not null also whether the points inside could be read into
  // boundaries_.
  bool ReadRun(Recording& recording, uint32_t run, uint64_t (&ticks)[2], bool* points);
  bool ReadPoints(const Recording& recording, uint64_t begin_ticks, uint64_t end_ticks);
  // The same of what was read ahead.
  bool TakeRead(const TrackedCb& cb, uint64_t (&ticks)[2], bool* points);
  bool AddToBatch(TrackedCb& cb);
  bool Read(const TrackedCb& cb, bool may_read, uint64_t (&ticks)[2], bool* points);
  Times TimesOf(Queue& queue, const TrackedCb& cb, bool may_read);
  // Of a CB without times of its own: as good a bound as the host, its neighbours and its likes give.
  GpuSpan HostSpanOf(Queue& queue, const TrackedCb& cb, bool may_read);
  void PublishOps(const TrackedCb& cb, const Recording& recording, const Times& times);
  event::Text InternedOpName(const Kernel& kernel, const RecordedOp& op, size_t slot);

  static constexpr size_t kOpsPerEvent = 256;
  static constexpr uint32_t kReadAhead = 64;
  static constexpr size_t kMaxNames = size_t{64} * 1024;

  Device& device_;
  TickClock clock_;
  ShapeTable shapes_;
  OpSplitter splitter_;
  std::unordered_map<uint64_t, uint32_t> names_;
  PodArray<OpBoundary> boundaries_;
  QueryBatch batch_;
  std::array<event::OpSample, kOpsPerEvent> samples_;
  std::array<char[kOpNameBytes], kOpsPerEvent> name_space_;
};

}  // namespace smeltr::hook::vulkan
