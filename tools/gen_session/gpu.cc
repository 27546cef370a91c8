#include "gpu.h"

#include <algorithm>
#include <utility>

namespace smeltr::gen_session {

using event::CbCommitted;
using event::CbCompleted;
using event::CbOps;
using event::CbScheduled;

namespace {

// Timers of GPUs do not count single nanoseconds.
constexpr uint64_t kTimerStepNs = 32;

}  // namespace

void Gpu::Submit(uint64_t now_ns, uint32_t tid, size_t queue, event::ScopeId scope_id, event::CbType type,
                 const std::vector<Call>& calls) {
  AdvanceTo(now_ns);
  if (queue >= queues_.size()) queues_.resize(queue + 1);
  Queue& on = queues_[queue];
  InFlight cb{.cb_id = event::CbId{next_cb_++}, .committed_ns = now_ns, .ops = {}};
  if (!free_ops_.empty()) {
    cb.ops = std::move(free_ops_.back());
    free_ops_.pop_back();
  }
  cb.start_ns = std::max(on.busy_until_ns + 400, now_ns + 2'500) + noise_.Wait(200);
  cb.end_ns = cb.start_ns;
  for (const Call& call : calls) {
    const uint64_t gpu_ns = (call.mean_ns + noise_.Wait(call.mean_ns / 40)) / kTimerStepNs * kTimerStepNs;
    cb.end_ns += gpu_ns;
    cb.ops.push_back({.name = std::string_view(call.kernel->name),
                      .symbol = std::string_view(call.kernel->symbol),
                      .type = event::OpType::kDispatch,
                      .gpu_ns = gpu_ns,
                      .count = 1,
                      .scope_id = call.scope_id,
                      .precision = event::Precision::kOp,
                      .local_x = call.kernel->local_x,
                      .local_y = 1,
                      .local_z = 1});
  }
  cb.told_ns = cb.end_ns + 2'000 + noise_.Wait(1'500);
  // Told in order, as the hook's thread does.
  if (!on.in_flight.empty()) cb.told_ns = std::max(cb.told_ns, on.in_flight.back().told_ns + 1);
  on.busy_until_ns = cb.end_ns;
  on.in_flight.push_back(std::move(cb));
  emit_({At(now_ns, tid), CbCommitted{.cb_id = on.in_flight.back().cb_id,
                                      .queue_id = Id(queue),
                                      .queue_depth = static_cast<uint32_t>(on.in_flight.size()),
                                      .scope_id = scope_id,
                                      .type = type,
                                      .submission = next_cb_ - 1}});
}

void Gpu::AdvanceTo(uint64_t now_ns) {
  for (;;) {
    size_t next = queues_.size();
    for (size_t i = 0; i < queues_.size(); ++i) {
      if (queues_[i].in_flight.empty() || queues_[i].in_flight.front().told_ns > now_ns) continue;
      if (next == queues_.size() ||
          queues_[i].in_flight.front().told_ns < queues_[next].in_flight.front().told_ns) {
        next = i;
      }
    }
    if (next == queues_.size()) return;
    InFlight& cb = queues_[next].in_flight.front();
    Tell(cb, Id(next));
    cb.ops.clear();
    free_ops_.push_back(std::move(cb.ops));
    queues_[next].in_flight.pop_front();
  }
}

void Gpu::Tell(const InFlight& cb, event::QueueId queue_id) {
  // A launch's begin is in its completion; only command buffers tell it apart.
  if (api_ != event::Api::kCuda) {
    emit_({At(cb.start_ns, hook_tid_), CbScheduled{.cb_id = cb.cb_id, .queue_id = queue_id}});
  }
  emit_({At(cb.told_ns, hook_tid_), CbCompleted{.cb_id = cb.cb_id,
                                                .queue_id = queue_id,
                                                .in_flight_ns = cb.told_ns - cb.committed_ns,
                                                .gpu_start_ns = cb.start_ns,
                                                .gpu_end_ns = cb.end_ns}});
  emit_({At(cb.told_ns + 300, hook_tid_), CbOps{.cb_id = cb.cb_id, .ops = cb.ops}});
}

}  // namespace smeltr::gen_session
