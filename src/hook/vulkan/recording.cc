#include "hook/vulkan/recording.h"

#include <new>

#include "hook/core/scopes.h"
#include "hook/vulkan/labels.h"

namespace smeltr::hook::vulkan {
namespace {

struct LastCommandBuffer {
  VkCommandBuffer handle = VK_NULL_HANDLE;
  CommandBuffer* state = nullptr;
  uint32_t epoch = 0;
};
constinit thread_local LastCommandBuffer t_last;
constinit std::atomic<uint32_t> g_epoch{1};

Recording* TakeSpare(Device& device) {
  {
    const std::lock_guard lock(device.recording_mutex);
    if (!device.spare_recordings.empty()) {
      Recording* recording = device.spare_recordings.back();
      device.spare_recordings.pop_back();
      return recording;
    }
  }
  return new (std::nothrow) Recording;
}

void ReturnQueries(Recording& recording) {
  Device& device = *recording.device;
  const bool used = recording.runs.load(std::memory_order_relaxed) > 0;
  recording.pair.used = used;
  device.queries.Return(device, recording.pair);
  recording.pair = {};
  for (QueryRange& chunk : recording.chunks) {
    chunk.used = used;
    device.queries.Return(device, chunk);
  }
  recording.chunks.Clear();
}

void Clear(Recording& recording) {
  recording.ops.Clear();
  recording.points.Clear();
  recording.labels.Clear();
  recording.shape = 0;
  recording.boundary_ops = recording.inner_boundaries = 0;
  recording.one_time = recording.simultaneous = recording.fresh_each_time = false;
  recording.may_time = recording.begun = recording.has_work = recording.sampled = false;
  recording.budget_spent = false;
  recording.in_render_pass = recording.suspended = false;
  for (const Kernel*& kernel : recording.bound) kernel = nullptr;
  recording.closes_inherited = 0;
  recording.runs.store(0, std::memory_order_relaxed);
  recording.read_run.store(0, std::memory_order_relaxed);
  if (SavedRun* saved = recording.saved.load(std::memory_order_relaxed)) {
    for (uint32_t i = 0; i < Recording::kSavedRuns; ++i) saved[i].run.store(0, std::memory_order_relaxed);
  }
}

// Whether queries may be written at all; says why not.
bool MayTime(const CommandBuffer& buffer, const Recording& recording) {
  const auto skip = [](event::SkipReason reason, std::string_view detail) {
    Skip(kApi, reason, detail);
    return false;
  };
  Device& device = *buffer.device;
  if (buffer.secondary) return false;  // Its ops are timed by the primary that executes it.
  if (recording.valid_bits == 0)
    return skip(event::SkipReason::kNoTimestamps, "queue family without timestamps");
  if (recording.simultaneous) return skip(event::SkipReason::kSimultaneousUse, "");
  if (buffer.pool->is_protected) return skip(event::SkipReason::kNestedQueries, "protected command buffer");
  if (device.traits.device_group) return skip(event::SkipReason::kFeatureUnavailable, "device group");
  const VkQueueFlags flags = device.families[buffer.pool->family].queueFlags;
  if (!device.traits.host_query_reset && (flags & (VK_QUEUE_COMPUTE_BIT | VK_QUEUE_GRAPHICS_BIT)) == 0) {
    return skip(event::SkipReason::kFeatureUnavailable, "no query reset on a transfer queue");
  }
  return true;
}

}  // namespace

CommandBuffer* FindCommandBuffer(VkCommandBuffer handle) {
  const uint32_t epoch = g_epoch.load(std::memory_order_acquire);
  if (t_last.handle == handle && t_last.epoch == epoch) return t_last.state;
  CommandBuffer* state = CommandBuffers().Find(HandleKey(handle));
  if (state != nullptr) t_last = {.handle = handle, .state = state, .epoch = epoch};
  return state;
}

void ForgetCachedCommandBuffers() { g_epoch.fetch_add(1, std::memory_order_acq_rel); }

void Acquire(Recording& recording) { recording.references.fetch_add(1, std::memory_order_relaxed); }

void Release(Recording& recording) {
  if (recording.references.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  Device& device = *recording.device;
  for (const event::ScopeId label : recording.labels) LeaveDetachedScope(label);
  ReturnQueries(recording);
  Clear(recording);
  const std::lock_guard lock(device.recording_mutex);
  device.spare_recordings.push_back(&recording);
}

void StartRecording(CommandBuffer& buffer, const VkCommandBufferBeginInfo& info) {
  DropRecording(buffer);
  Device& device = *buffer.device;
  Recording* recording = TakeSpare(device);
  if (recording == nullptr) return Skip(kApi, event::SkipReason::kTableFull, "recordings");
  recording->references.store(1, std::memory_order_relaxed);
  recording->device = &device;
  recording->one_time = (info.flags & VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT) != 0;
  recording->simultaneous = (info.flags & VK_COMMAND_BUFFER_USAGE_SIMULTANEOUS_USE_BIT) != 0;
  recording->fresh_each_time = recording->one_time || buffer.submitted_once;
  recording->valid_bits = device.families[buffer.pool->family].timestampValidBits;
  recording->in_render_pass =
      buffer.secondary && (info.flags & VK_COMMAND_BUFFER_USAGE_RENDER_PASS_CONTINUE_BIT) != 0;
  recording->may_time = MayTime(buffer, *recording);
  buffer.recording = recording;
}

void DropRecording(CommandBuffer& buffer) {
  Recording* recording = buffer.recording;
  if (recording == nullptr) return;
  buffer.recording = nullptr;
  const uint32_t runs = recording->runs.load(std::memory_order_relaxed);
  // A recording that never ran says nothing about how the program goes about it.
  if (runs > 0) buffer.submitted_once = runs == 1;
  Release(*recording);
}

Recorder::Recorder(VkCommandBuffer handle) : handle_(handle) {
  CommandBuffer* buffer = FindCommandBuffer(handle);
  Device* device = buffer != nullptr ? buffer->device : FindDevice(handle);
  if (device == nullptr) return;
  next_ = &device->next;
  device_ = device;
  if (buffer != nullptr && device->recorded()) recording_ = buffer->recording;
}

void Recorder::Begin() {
  Recording& recording = *recording_;
  recording.has_work = true;
  if (!recording.may_time) return;
  // Inside a render pass (of a secondary, or begun by ways we do not know) it is too late.
  if (recording.in_render_pass) {
    recording.may_time = false;
    return;
  }
  if (!device_->queries.Take(*device_, QueryAllocator::kPair, recording.pair)) {
    recording.may_time = false;
    return Skip(kApi, event::SkipReason::kTableFull, "timestamp queries");
  }
  if (!device_->traits.host_query_reset) {
    next_->CmdResetQueryPool(handle_, recording.pair.pool, recording.pair.first, recording.pair.count);
  }
  next_->CmdWriteTimestamp(handle_, VK_PIPELINE_STAGE_TOP_OF_PIPE_BIT, recording.pair.pool,
                           recording.pair.first);
  recording.begun = true;
  const Settings& settings = CurrentSettings();
  // Without a host reset, more queries would have to be reset in the middle of the program's commands.
  if (!settings.ops || !device_->traits.host_query_reset) return;
  recording.sampled = settings.exact_ops || (recording.fresh_each_time && device_->budget.MaySample());
}

void Recorder::BeforeOp() {
  if (recording_ != nullptr && !recording_->has_work) Begin();
}

void Recorder::AfterOp(const Kernel& kernel, event::OpType type, uint32_t x, uint32_t y, uint32_t z) {
  if (recording_ == nullptr) return;
  Recording& recording = *recording_;
  if (!CurrentSettings().ops) return;
  const event::ScopeId thread_scope = CurrentScope();
  const event::ScopeId label = recording.labels.empty() ? event::ScopeId{} : recording.labels.back();
  const bool in_label = event::Raw(label) > event::Raw(thread_scope);
  const RecordedOp op{.kernel = reinterpret_cast<uintptr_t>(&kernel),
                      .x = x,
                      .y = y,
                      .z = z,
                      .type = type,
                      .scope_is_label = in_label,
                      .scope_id = in_label ? label : thread_scope};
  if (recording.ops.size() >= Recording::kMaxOps || !recording.ops.Push(op)) {
    return Skip(kApi, event::SkipReason::kTableFull, "ops of a command buffer");
  }
  recording.shape = MixOp(recording.shape, op.kernel, x, y, z);
  if (CurrentSettings().exact_ops && !recording.in_render_pass) AddPoint(true);
}

void Recorder::BeforeBarrier() {
  if (recording_ == nullptr) return;
  if (!recording_->has_work) return Begin();
  NoteBoundary();
  if (recording_->sampled && !CurrentSettings().exact_ops) AddPoint(false);
}

void Recorder::NoteBoundary() {
  Recording& recording = *recording_;
  const auto ops = static_cast<uint32_t>(recording.ops.size());
  recording.shape = MixOp(recording.shape, 1, 0, 0, 0);
  if (ops == recording.boundary_ops) return;
  recording.boundary_ops = ops;
  ++recording.inner_boundaries;
}

void Recorder::BeforeRenderPass(bool resumes, bool suspends) {
  if (recording_ == nullptr) return;
  // Resumed from an earlier command buffer: not even the begin timestamp may come between.
  if (resumes && !recording_->has_work) recording_->may_time = false;
  if (!resumes || !recording_->in_render_pass) BeforeBarrier();
  recording_->suspended = suspends;
  recording_->in_render_pass = true;
}

void Recorder::AfterRenderPass() {
  if (recording_ == nullptr || recording_->suspended) return;
  recording_->in_render_pass = false;
  NoteBoundary();
  if (recording_->sampled) AddPoint(CurrentSettings().exact_ops);
}

void Recorder::ExecuteSecondaries(uint32_t count, const VkCommandBuffer* secondaries) {
  if (recording_ == nullptr || !CurrentSettings().ops) return;
  for (uint32_t i = 0; i < count; ++i) {
    const CommandBuffer* secondary = CommandBuffers().Find(HandleKey(secondaries[i]));
    if (secondary == nullptr || secondary->recording == nullptr) continue;
    const Recording& executed = *secondary->recording;
    if (recording_->ops.size() + executed.ops.size() > Recording::kMaxOps ||
        !recording_->ops.Append(executed.ops.view())) {
      Skip(kApi, event::SkipReason::kTableFull, "ops of a command buffer");
      continue;
    }
    recording_->shape = MixOp(recording_->shape, executed.shape, 0, 0, 0);
    recording_->inner_boundaries += executed.inner_boundaries;
  }
  if (CurrentSettings().exact_ops && !recording_->in_render_pass) AddPoint(true);
}

void Recorder::AddPoint(bool exact) {
  Recording& recording = *recording_;
  if (!recording.begun || !recording.sampled || recording.budget_spent || recording.in_render_pass) return;
  const auto ops = static_cast<uint32_t>(recording.ops.size());
  const uint32_t before = recording.points.empty() ? 0 : recording.points.back();
  if (ops == before) return;  // Nothing new to time.
  if (!exact && !device_->budget.Spend()) {
    recording.budget_spent = true;
    return Skip(kApi, event::SkipReason::kSamplingReduced, "per-op timestamps within their cost budget");
  }
  const size_t index = recording.points.size() % QueryAllocator::kChunk;
  if (index == 0) {
    QueryRange chunk;
    if (!device_->queries.Take(*device_, QueryAllocator::kChunk, chunk)) {
      return Skip(kApi, event::SkipReason::kTableFull, "timestamp queries");
    }
    if (!recording.chunks.Push(chunk)) return device_->queries.Return(*device_, chunk);
  }
  const QueryRange& chunk = recording.chunks.back();
  if (!recording.points.Push(ops)) return;
  next_->CmdWriteTimestamp(handle_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, chunk.pool,
                           chunk.first + static_cast<uint32_t>(index));
}

void Recorder::Finish() {
  if (recording_ == nullptr || !recording_->begun || recording_->suspended) return;
  const QueryRange& pair = recording_->pair;
  next_->CmdWriteTimestamp(handle_, VK_PIPELINE_STAGE_BOTTOM_OF_PIPE_BIT, pair.pool, pair.first + 1);
}

}  // namespace smeltr::hook::vulkan
