// The simulated program: an inference server that decodes tokens with a transformer, watched by the sidecar
// and the probes. What it does depends on the seed and the interface alone.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "gpu.h"
#include "noise.h"

namespace smeltr::gen_session {

struct ProgramOptions {
  uint64_t seed = 1;
  event::Api api = event::Api::kCuda;
  uint32_t layers = 24;
  uint64_t start_ns = 5'000'000'000;
};

class Program {
 public:
  static constexpr uint32_t kPid = 4242;

  Program(const ProgramOptions& options, Emit emit);

  // Loads the model: hellos, devices, queues, weights.
  void Start();
  // Decodes one token. Every 512th step begins a new request: a prefill, a longer key-value cache.
  void Step();
  // Waits for the GPU, frees what is allocated.
  void End();
  // Dies by SIGSEGV with command buffers in flight.
  void Crash();

  uint64_t now_ns() const { return now_ns_; }

 private:
  enum Stage : uint8_t { kNorm, kQkv, kAttend, kProject, kUp, kDown, kStageCount };

  template <typename E>
  void Tell(const E& fields, event::Api api = event::Api::kNone, uint32_t tid = kPid) {
    emit_({{.ts_ns = now_ns_, .pid = kPid, .tid = tid, .api = api}, fields});
  }
  void Pass(uint64_t ns) { now_ns_ += ns + noise_.Wait(ns / 8); }
  event::ScopeId Enter(std::string_view name, event::ScopeId parent, uint32_t depth, uint64_t step);
  void Leave(event::ScopeId scope_id);
  void Layer(uint32_t layer, event::ScopeId step_scope, uint64_t factor_pct);
  void Run(Stage stage, uint32_t layer, event::ScopeId scope_id, uint64_t factor_pct);
  void Flush(event::ScopeId scope_id);
  void Transfer();
  void BeginRequest();
  void EndRequest();
  void Sample();
  bool captures_buffers() const { return options_.api != event::Api::kCuda; }

  ProgramOptions options_;
  Emit emit_;
  Noise noise_;
  Gpu gpu_;
  uint64_t now_ns_;
  uint64_t next_sample_ns_;
  uint64_t next_scope_ = 1;
  uint64_t next_buffer_ = 1;
  uint64_t steps_ = 0;
  uint64_t used_bytes_ = 0;
  uint64_t peak_bytes_ = 0;
  uint64_t energy_mj_ = 0;
  std::vector<Kernel> kernels_;  // By layer and stage: those of a layer differ in their sizes.
  std::vector<std::string> layer_names_;
  std::vector<Call> calls_;  // Encoded, not yet submitted.
  struct Buffer {
    event::BufferId id{};
    uint64_t size_bytes = 0;
  };
  std::vector<Buffer> request_buffers_;
};

}  // namespace smeltr::gen_session
