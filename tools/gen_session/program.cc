#include "program.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <utility>

namespace smeltr::gen_session {

namespace {

using namespace event;

constexpr uint32_t kHookTid = 4250;
constexpr uint64_t kMiB = 1 << 20;
constexpr uint64_t kGiB = 1 << 30;
constexpr uint64_t kSamplePeriodNs = 1'000'000'000;
constexpr uint64_t kRequestSteps = 512;
constexpr size_t kComputeQueue = 0;
constexpr size_t kCopyQueue = 1;

struct StageInfo {
  const char* symbol;
  uint64_t mean_ns;
  uint32_t local_x;
};
// Half-precision kernels of a model of 7 billion parameters on a data-centre GPU, batch 1.
constexpr std::array<StageInfo, 6> kStages = {{{"rms_norm_f16", 2'300, 256},
                                               {"gemv_qkv_f16", 11'800, 128},
                                               {"flash_attention_decode", 7'400, 128},
                                               {"gemv_out_f16", 6'100, 128},
                                               {"gemv_gate_up_silu_f16", 21'500, 128},
                                               {"gemv_down_f16", 12'900, 128}}};

std::string ContentName(size_t kernel, size_t layer) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  uint64_t hash = (kernel + 1) * 0x9E3779B97F4A7C15ULL;
  std::string name = "K_";
  for (int i = 0; i < 8; ++i, hash >>= 4) name += kDigits[hash & 15];
  return name + "_" + std::to_string(32 + layer % 4 * 8) + "x1x1";
}

}  // namespace

Program::Program(const ProgramOptions& options, Emit emit)
    : options_(options),
      emit_(std::move(emit)),
      noise_(options.seed),
      gpu_(options.api, kPid, kHookTid, noise_, emit_),
      now_ns_(options.start_ns),
      next_sample_ns_(options.start_ns + kSamplePeriodNs) {
  for (size_t layer = 0; layer < options_.layers; ++layer) {
    layer_names_.push_back("layers." + std::to_string(layer));
    for (size_t stage = 0; stage < kStageCount; ++stage) {
      const StageInfo& info = kStages.at(stage);
      kernels_.push_back({ContentName(stage, layer), info.symbol, info.mean_ns, info.local_x});
    }
  }
  kernels_.push_back({ContentName(100, 0), "memcpy_htod", 1'900, 0});
}

void Program::Start() {
  constexpr std::string_view kModel = "models/llama-7b-f16.safetensors";
  const std::vector<Text> argv = {"python", "serve.py", "--model", kModel};
  const std::vector<MemoryHeap> heaps = {{.size_bytes = 80 * kGiB, .device_local = true}};
  Tell(ProcessSeen{.parent_pid = 4200,
                   .start_time_ticks = 77,
                   .executable = "/usr/bin/python3",
                   .process_name = "python3"});
  Tell(HookHello{.version = "0.1.0", .executable = "/usr/bin/python3", .start_time_ticks = 77});
  Tell(PythonSidecarHello{.python_version = "3.12.4", .argv = argv});
  Pass(40'000'000);
  Tell(DeviceInfo{.device_id = DeviceId{1},
                  .device_name = "Synthetic GPU 80GB",
                  .driver = "generated",
                  .api_version = "1.3",
                  .heaps = heaps},
       options_.api);
  Tell(QueueInfo{.queue_id = Gpu::Id(kComputeQueue),
                 .device_id = DeviceId{1},
                 .label = "compute",
                 .timestamp_valid_bits = 64},
       options_.api);
  Tell(QueueInfo{.queue_id = Gpu::Id(kCopyQueue),
                 .device_id = DeviceId{1},
                 .label = "copy",
                 .timestamp_valid_bits = 64},
       options_.api);
  const uint64_t load_began_ns = now_ns_;
  for (uint32_t layer = 0; layer < options_.layers; ++layer) {
    used_bytes_ += 400 * kMiB;
    Tell(HeapAlloc{.heap_id = HeapId{layer + 1},
                   .size_bytes = 400 * kMiB,
                   .label = std::string_view(layer_names_[layer]),
                   .device_local = true},
         options_.api);
    Pass(30'000'000);
    Sample();
  }
  Tell(ModelLoad{.path = kModel,
                 .size_bytes = used_bytes_,
                 .t_start_ns = load_began_ns,
                 .t_end_ns = now_ns_,
                 .sha8 = "5d1c0a77",
                 .framework = "torch"});
  Tell(Mark{.label = "ready", .fields = {}});
}

void Program::Step() {
  if (steps_ % kRequestSteps == 0) BeginRequest();
  const bool is_prefill = steps_ % kRequestSteps == 0;
  const ScopeId step = Enter(is_prefill ? "prefill" : "decode_step", ScopeId{}, 0, steps_);
  Transfer();
  // A prefill works on all tokens of the prompt at once; decoding slows down as the cache grows.
  const uint64_t factor_pct = is_prefill ? 4'000 : 100 + steps_ % kRequestSteps / 16;
  for (uint32_t layer = 0; layer < options_.layers; ++layer) Layer(layer, step, factor_pct);
  Flush(step);
  // The next token is needed before the next step: the host waits.
  const uint64_t waited_from_ns = now_ns_;
  now_ns_ = std::max(now_ns_, gpu_.IdleAt(kComputeQueue) + 6'000 + noise_.Wait(2'000));
  gpu_.AdvanceTo(now_ns_);
  if (now_ns_ - waited_from_ns > 1'000'000) {
    Tell(HostWait{.call = "synchronize", .duration_ns = now_ns_ - waited_from_ns}, options_.api);
  }
  Leave(step);
  ++steps_;
  if (steps_ % kRequestSteps == 0) EndRequest();
  Sample();
}

void Program::End() {
  now_ns_ = std::max({now_ns_, gpu_.IdleAt(kComputeQueue), gpu_.IdleAt(kCopyQueue)}) + 20'000;
  gpu_.Finish();
  EndRequest();
  for (uint32_t layer = 0; layer < options_.layers; ++layer)
    Tell(HeapFree{.heap_id = HeapId{layer + 1}}, options_.api);
  Pass(1'000'000);
  Tell(ProcessExit{.exit_code = 0});
}

void Program::Crash() {
  const ScopeId step = Enter("decode_step", ScopeId{}, 0, steps_);
  for (uint32_t layer = 0; layer < options_.layers / 2 + 1; ++layer) Layer(layer, step, 100);
  Flush(step);
  Pass(5'000);
  const std::vector<StackFrame> frames = {{.filename = "serve.py", .lineno = 118, .funcname = "decode"},
                                          {.filename = "serve.py", .lineno = 204, .funcname = "main"}};
  Tell(SignalCaught{.signal = SIGSEGV, .address = 0x18, .python_frames = frames});
  Tell(ProcessExit{.exit_code = -1, .term_signal = SIGSEGV});
}

ScopeId Program::Enter(std::string_view name, ScopeId parent, uint32_t depth, uint64_t step) {
  const ScopeId scope_id{next_scope_++};
  const std::array<Attribute, 1> fields = {
      Attribute{.key = "step", .type = AttributeType::kInt, .bits = step, .text = {}}};
  Tell(ModuleEntered{.module_call_id = scope_id,
                     .qualname = name,
                     .parent_call_id = parent,
                     .depth = depth,
                     .origin = ScopeOrigin::kPython,
                     .fields = depth == 0 ? List<Attribute>(fields) : List<Attribute>()});
  Pass(900);
  return scope_id;
}

void Program::Leave(ScopeId scope_id) {
  Tell(ModuleReturned{.module_call_id = scope_id});
  Pass(400);
}

void Program::Layer(uint32_t layer, ScopeId step_scope, uint64_t factor_pct) {
  const ScopeId scope_id = Enter(layer_names_[layer], step_scope, 1, 0);
  const ScopeId attention = Enter("self_attn", scope_id, 2, 0);
  for (const Stage stage : {kNorm, kQkv, kAttend, kProject}) Run(stage, layer, attention, factor_pct);
  Leave(attention);
  const ScopeId mlp = Enter("mlp", scope_id, 2, 0);
  for (const Stage stage : {kNorm, kUp, kDown}) Run(stage, layer, mlp, factor_pct);
  Leave(mlp);
  Leave(scope_id);
}

void Program::Run(Stage stage, uint32_t layer, ScopeId scope_id, uint64_t factor_pct) {
  const Kernel& kernel = kernels_[layer * kStageCount + stage];
  calls_.push_back({&kernel, scope_id, kernel.mean_ns * factor_pct / 100});
  Pass(3'800);
  if (!captures_buffers()) Flush(scope_id);
  // Command buffers of some 40 kernels, as frameworks cut them.
  if (calls_.size() >= 40) Flush(scope_id);
}

void Program::Flush(ScopeId scope_id) {
  if (calls_.empty()) return;
  gpu_.Submit(now_ns_, kPid, kComputeQueue, scope_id,
              captures_buffers() ? CbType::kCommands : CbType::kLaunch, calls_);
  calls_.clear();
}

void Program::Transfer() {
  const Kernel& copy = kernels_.back();
  gpu_.Submit(now_ns_, kPid + 1, kCopyQueue, ScopeId{}, CbType::kCopy, {{&copy, ScopeId{}, copy.mean_ns}});
  Pass(2'000);
}

void Program::BeginRequest() {
  const uint64_t cache_bytes = (64 + noise_.Below(192)) * kMiB;
  for (uint32_t layer = 0; layer < options_.layers; ++layer) {
    const Buffer buffer{BufferId{next_buffer_++}, cache_bytes / options_.layers};
    used_bytes_ += buffer.size_bytes;
    request_buffers_.push_back(buffer);
    Tell(BufferAlloc{.buffer_id = buffer.id, .size_bytes = buffer.size_bytes, .label = "kv_cache"},
         options_.api);
    Pass(1'500);
  }
  peak_bytes_ = std::max(peak_bytes_, used_bytes_);
  Tell(DeviceMemSample{.allocated_bytes = used_bytes_,
                       .recommended_max_bytes = 80 * kGiB,
                       .at_event = MemSampleAt::kAllocation,
                       .device_id = DeviceId{1}},
       options_.api);
}

void Program::EndRequest() {
  for (const Buffer& buffer : request_buffers_) {
    used_bytes_ -= buffer.size_bytes;
    Tell(BufferFree{.buffer_id = buffer.id}, options_.api);
    Pass(700);
  }
  request_buffers_.clear();
}

void Program::Sample() {
  if (now_ns_ < next_sample_ns_) return;
  next_sample_ns_ = now_ns_ + kSamplePeriodNs;
  energy_mj_ += 380'000 + noise_.Below(40'000);
  const uint64_t host_bytes = 6 * kGiB + noise_.Below(64 * kMiB);
  Tell(VmSample{.wired_bytes = 3 * kGiB,
                .active_bytes = 9 * kGiB + noise_.Below(kGiB),
                .total_bytes = 128 * kGiB,
                .available_bytes = 110 * kGiB,
                .pressure = "normal",
                .cpu_busy_pct = 12.5 + static_cast<double>(noise_.Below(100)) / 25});
  Tell(ProcFootprint{.target_pid = kPid,
                     .process_name = "python3",
                     .phys_footprint_bytes = host_bytes,
                     .lifetime_max_phys_footprint_bytes = 7 * kGiB,
                     .is_traced_root = true,
                     .rss_bytes = host_bytes,
                     .gpu_bytes = used_bytes_});
  Tell(GpuDeviceSample{.utilisation_pct = static_cast<double>(85 + noise_.Below(15)),
                       .used_bytes = used_bytes_ + 512 * kMiB,
                       .power_mw = 380'000 + noise_.Below(40'000),
                       .clock_mhz = 1'755,
                       .device_name = "Synthetic GPU 80GB",
                       .total_bytes = 80 * kGiB,
                       .memory_utilisation_pct = 60,
                       .temperature_c = static_cast<double>(58 + noise_.Below(6)),
                       .energy_mj = energy_mj_});
}

}  // namespace smeltr::gen_session
