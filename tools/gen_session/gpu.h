// The simulated GPU: command buffers of each queue run one after the other, all queues side by side. Events
// come out in the order of their times.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "event/event.h"
#include "noise.h"

namespace smeltr::gen_session {

// One kernel as it is run again and again.
struct Kernel {
  std::string name;
  std::string symbol;
  uint64_t mean_ns = 0;  // At its usual size.
  uint32_t local_x = 256;
};

struct Call {
  const Kernel* kernel = nullptr;
  event::ScopeId scope_id{};
  uint64_t mean_ns = 0;
};

using Emit = std::function<void(const event::Event&)>;

class Gpu {
 public:
  // `hook_tid`: the thread that reports completions.
  Gpu(event::Api api, uint32_t pid, uint32_t hook_tid, Noise& noise, Emit emit)
      : api_(api), pid_(pid), hook_tid_(hook_tid), noise_(noise), emit_(std::move(emit)) {}

  // A command buffer of `calls`, submitted at `now_ns` by `tid`.
  void Submit(uint64_t now_ns, uint32_t tid, size_t queue, event::ScopeId scope_id, event::CbType type,
              const std::vector<Call>& calls);
  // Emits what happened until `now_ns`.
  void AdvanceTo(uint64_t now_ns);
  // When all that was submitted to the queue will have completed.
  uint64_t IdleAt(size_t queue) const { return queue < queues_.size() ? queues_[queue].busy_until_ns : 0; }
  // Emits all that is left.
  void Finish() { AdvanceTo(UINT64_MAX); }

  static event::QueueId Id(size_t queue) { return event::QueueId{queue + 1}; }
  uint64_t committed_count() const { return next_cb_ - 1; }

 private:
  struct InFlight {
    event::CbId cb_id{};
    uint64_t committed_ns = 0;
    uint64_t start_ns = 0;
    uint64_t end_ns = 0;
    uint64_t told_ns = 0;
    std::vector<event::OpSample> ops;
  };
  struct Queue {
    uint64_t busy_until_ns = 0;
    std::deque<InFlight> in_flight;
  };

  void Tell(const InFlight& cb, event::QueueId queue_id);
  event::Envelope At(uint64_t ts_ns, uint32_t tid) const {
    return {.ts_ns = ts_ns, .pid = pid_, .tid = tid, .api = api_};
  }

  event::Api api_;
  uint32_t pid_;
  uint32_t hook_tid_;
  Noise& noise_;
  Emit emit_;
  uint64_t next_cb_ = 1;
  std::vector<Queue> queues_;
  std::vector<std::vector<event::OpSample>> free_ops_;
};

}  // namespace smeltr::gen_session
