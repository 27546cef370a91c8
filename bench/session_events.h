// The events of a GPU program as the session benchmarks write and read them: lifecycle and ops of command
// buffers, with the noise that real times have. Always the same ones.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "event/event.h"

namespace smeltr::bench {

struct Mix {
  const char* name;
  event::Api api;
  size_t ops_per_cb;
  uint64_t cb_period_ns;
  bool scheduled;  // Whether CBs have a CbScheduled.
};

// One kernel a CB, as CUDA has it: committed, completed, ops.
inline constexpr Mix kLaunches{"launches", event::Api::kCuda, 1, 6'500, false};
// A decode loop: a CB of 12 different kernels, each with its begin: committed, scheduled, completed, ops.
inline constexpr Mix kDecodeLoop{"decode_loop", event::Api::kVulkan, 12, 450'000, true};

class CbEvents {
 public:
  explicit CbEvents(const Mix& mix) : mix_(mix) {
    for (size_t i = 0; i < kKernels; ++i) {
      symbols_.push_back("layer_" + std::to_string(i) + "_matmul_f16");
      names_.push_back("K_" + std::to_string(1'000'003 * i) + "_" + std::to_string(i + 1) + "x1x1");
    }
  }

  // Appends the events of the next `count` / 4 or 3 CBs to `events`; valid until the next call.
  void Make(size_t count, std::vector<event::Event>& events) {
    const size_t cbs = count / (mix_.scheduled ? 4 : 3);
    ops_.resize(cbs * mix_.ops_per_cb);
    for (size_t i = 0; i < cbs; ++i) AddCb(i, events);
    cbs_done_ += cbs;
    // As the drain sees them: roughly in time, completions later than the commits after them.
    std::stable_sort(events.begin(), events.end(), [](const event::Event& a, const event::Event& b) {
      return a.envelope.ts_ns < b.envelope.ts_ns;
    });
  }

 private:
  static constexpr size_t kKernels = 24;

  uint64_t Noise(double mean_ns) {
    return static_cast<uint64_t>(std::exponential_distribution<>(1.0 / mean_ns)(random_));
  }

  void AddCb(size_t index_here, std::vector<event::Event>& events) {
    using namespace event;
    const size_t index = cbs_done_ + index_here;
    const CbId cb_id{index + 1};
    const QueueId queue_id{1};
    const uint64_t period_ns = mix_.cb_period_ns;
    host_ns_ += period_ns - period_ns / 8 + Noise(static_cast<double>(period_ns) / 8);
    const ScopeId scope_id{index / 16 + 1};
    event::Envelope envelope{.ts_ns = host_ns_, .pid = 4242, .tid = 4242, .api = mix_.api};
    const uint64_t start_ns = std::max(gpu_ns_ + 500, host_ns_ + 3'000) + Noise(200);
    uint64_t span_ns = 0;
    const std::span<OpSample> ops = std::span(ops_).subspan(index_here * mix_.ops_per_cb, mix_.ops_per_cb);
    for (size_t i = 0; i < ops.size(); ++i) {
      const size_t kernel = (index * mix_.ops_per_cb + i) % kKernels;
      const uint64_t gpu_ns = (2'000 + 150 * kernel + Noise(120)) / 32 * 32;
      ops[i] = {.name = std::string_view(names_[kernel]),
                .symbol = std::string_view(symbols_[kernel]),
                .type = OpType::kDispatch,
                .gpu_ns = gpu_ns,
                .count = 1,
                .scope_id = scope_id,
                .precision = Precision::kOp,
                .local_x = 256,
                .local_y = 1,
                .local_z = 1};
      span_ns += gpu_ns;
    }
    gpu_ns_ = start_ns + span_ns;
    const uint64_t done_ns = gpu_ns_ + 2'000 + Noise(1'500);
    const auto depth = static_cast<uint32_t>(1 + (done_ns - host_ns_) / period_ns);
    events.push_back({envelope, CbCommitted{.cb_id = cb_id,
                                            .queue_id = queue_id,
                                            .queue_depth = depth,
                                            .scope_id = scope_id,
                                            .submission = index + 1}});
    // What follows is written by the hook's own thread.
    envelope.tid = 4250;
    if (mix_.scheduled) {
      envelope.ts_ns = start_ns;
      events.push_back({envelope, CbScheduled{.cb_id = cb_id, .queue_id = queue_id}});
    }
    envelope.ts_ns = done_ns;
    events.push_back({envelope, CbCompleted{.cb_id = cb_id,
                                            .queue_id = queue_id,
                                            .in_flight_ns = done_ns - host_ns_,
                                            .gpu_start_ns = start_ns,
                                            .gpu_end_ns = gpu_ns_}});
    envelope.ts_ns = done_ns + 300 + Noise(100);
    events.push_back({envelope, CbOps{.cb_id = cb_id, .ops = ops}});
  }

  Mix mix_;
  size_t cbs_done_ = 0;
  std::mt19937_64 random_{7};
  uint64_t host_ns_ = 5'000'000'000;
  uint64_t gpu_ns_ = 0;
  std::vector<std::string> symbols_;
  std::vector<std::string> names_;
  std::vector<event::OpSample> ops_;
};

}  // namespace smeltr::bench
