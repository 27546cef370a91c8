#include "hook/vulkan/publish.h"

#include <time.h>

#include <algorithm>

#include "base/clock.h"

namespace smeltr::hook::vulkan {
namespace {

constexpr uint64_t kQueryWaitNs = 20'000'000;

// One reading of both clocks at the same instant, the best of several.
bool ReadBothClocks(Device& device, uint64_t& ticks, uint64_t& ns) {
  const VkCalibratedTimestampInfoEXT domains[2] = {
      {VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, nullptr, VK_TIME_DOMAIN_DEVICE_EXT},
      {VK_STRUCTURE_TYPE_CALIBRATED_TIMESTAMP_INFO_EXT, nullptr, VK_TIME_DOMAIN_CLOCK_MONOTONIC_EXT}};
  constexpr int kTries = 10;
  uint64_t best_deviation = ~uint64_t{0};
  for (int i = 0; i < kTries; ++i) {
    uint64_t values[2];
    uint64_t deviation = 0;
    if (device.next.GetCalibratedTimestampsEXT(device.handle, 2, domains, values, &deviation) != VK_SUCCESS)
      break;
    if (deviation >= best_deviation) continue;
    best_deviation = deviation;
    ticks = values[0];
    ns = values[1];
  }
  return best_deviation != ~uint64_t{0};
}

}  // namespace

Publisher::Publisher(Device& device) : device_(device) {
  clock_.SetPeriod(device.traits.ns_per_tick);
  // Its timestamps are CLOCK_MONOTONIC in ns; a calibration would only add noise.
  if (device.traits.llvmpipe) clock_.SetIdentity();
}

void Publisher::Calibrate(uint64_t) {
  if (device_.traits.llvmpipe || !device_.traits.calibrated_timestamps) return;
  uint64_t ticks = 0;
  uint64_t ns = 0;
  if (ReadBothClocks(device_, ticks, ns)) clock_.Calibrate(ticks, ns);
}

bool Publisher::ReadRun(Recording& recording, uint32_t run, uint64_t (&ticks)[2], bool* points) {
  const auto read_saved = [&] {
    const SavedRun* saved = recording.saved.load(std::memory_order_acquire);
    if (saved == nullptr) return false;
    const SavedRun& slot = saved[run % Recording::kSavedRuns];
    if (slot.run.load(std::memory_order_acquire) != run) return false;
    ticks[0] = slot.begin_ticks.load(std::memory_order_relaxed);
    ticks[1] = slot.end_ticks.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    return slot.run.load(std::memory_order_relaxed) == run;
  };
  // The submitter holds the queries for as long as it takes to read and reset them, and then they are saved.
  const uint64_t give_up_ns = MonotonicNowNs() + kQueryWaitNs;
  while (recording.query_busy.test_and_set(std::memory_order_acquire)) {
    if (MonotonicNowNs() > give_up_ns) return read_saved();
    const timespec moment{.tv_sec = 0, .tv_nsec = 20'000};
    nanosleep(&moment, nullptr);
  }
  bool read = false;
  if (recording.runs.load(std::memory_order_relaxed) == run) {
    read = ReadTimestamps(device_, recording.pair, 0, 2, ticks);
    if (read) recording.read_run.store(run, std::memory_order_relaxed);
    if (read && points != nullptr && recording.sampled) *points = ReadPoints(recording, ticks[0], ticks[1]);
  }
  recording.query_busy.clear(std::memory_order_release);
  return read || read_saved();
}

bool Publisher::ReadPoints(const Recording& recording, uint64_t begin_ticks, uint64_t end_ticks) {
  boundaries_.Clear();
  const auto since_begin = [&](uint64_t ticks) {
    return clock_.DurationNs(begin_ticks, ticks, recording.valid_bits);
  };
  std::array<uint64_t, QueryAllocator::kChunk> ticks;
  for (size_t first = 0; first < recording.points.size(); first += QueryAllocator::kChunk) {
    const auto count =
        static_cast<uint32_t>(std::min<size_t>(recording.points.size() - first, QueryAllocator::kChunk));
    const QueryRange& chunk = recording.chunks[first / QueryAllocator::kChunk];
    if (!ReadTimestamps(device_, chunk, 0, count, ticks.data())) return false;
    for (uint32_t i = 0; i < count; ++i) {
      const OpBoundary boundary{.op_count = recording.points[first + i], .ns = since_begin(ticks[i])};
      if (!boundaries_.Push(boundary)) return false;
    }
  }
  const auto all = static_cast<uint32_t>(recording.ops.size());
  return boundaries_.Push({.op_count = all, .ns = since_begin(end_ticks)});
}

bool MayRunAgain(const TrackedCb& cb) {
  const auto* recording = static_cast<const Recording*>(cb.recording);
  return recording != nullptr && recording->begun && !recording->one_time &&
         recording->references.load(std::memory_order_relaxed) > 1 &&
         recording->runs.load(std::memory_order_relaxed) == cb.run;
}

uint32_t Publisher::ReadAhead(Queue& queue, uint64_t completed) {
  batch_.Clear();
  uint32_t count = 0;
  for (; count < kReadAhead; ++count) {
    TrackedCb* cb = queue.tracker.Behind(count);
    if (cb == nullptr || cb->submission > completed || MayRunAgain(*cb)) break;
    cb->read_ahead = AddToBatch(*cb);
  }
  batch_.Read(device_);
  for (uint32_t i = 0; i < count; ++i) {
    const TrackedCb& cb = *queue.tracker.Behind(i);
    if (!cb.read_ahead) continue;
    auto& recording = *static_cast<Recording*>(cb.recording);
    if (batch_.ticks(cb.read_at) != 0) recording.read_run.store(cb.run, std::memory_order_relaxed);
    recording.query_busy.clear(std::memory_order_release);
  }
  return count;
}

// Holds the recording's queries when it returns true.
bool Publisher::AddToBatch(TrackedCb& cb) {
  auto* recording = static_cast<Recording*>(cb.recording);
  // Of earlier runs nothing is left in the queries.
  const auto is_last_run = [&] { return recording->runs.load(std::memory_order_relaxed) == cb.run; };
  if (recording == nullptr || !recording->begun || !is_last_run()) return false;
  if (recording->query_busy.test_and_set(std::memory_order_acquire)) return false;
  size_t ignored = 0;
  bool added = is_last_run() && batch_.Add(recording->pair, cb.read_at);
  for (size_t i = 0; added && recording->sampled && i < recording->chunks.size(); ++i) {
    added = batch_.Add(recording->chunks[i], ignored);
  }
  if (!added) recording->query_busy.clear(std::memory_order_release);
  return added;
}

bool Publisher::TakeRead(const TrackedCb& cb, uint64_t (&ticks)[2], bool* points) {
  const auto& recording = *static_cast<const Recording*>(cb.recording);
  ticks[0] = batch_.ticks(cb.read_at);
  ticks[1] = batch_.ticks(cb.read_at + 1);
  if (ticks[0] == 0 || ticks[1] == 0) return false;
  if (points == nullptr || !recording.sampled) return true;
  boundaries_.Clear();
  const auto since_begin = [&](uint64_t at) { return clock_.DurationNs(ticks[0], at, recording.valid_bits); };
  for (size_t i = 0; i < recording.points.size(); ++i) {
    const uint64_t at = batch_.ticks(cb.read_at + QueryAllocator::kPair + i);
    if (at == 0 || !boundaries_.Push({.op_count = recording.points[i], .ns = since_begin(at)})) return true;
  }
  const auto all = static_cast<uint32_t>(recording.ops.size());
  *points = boundaries_.Push({.op_count = all, .ns = since_begin(ticks[1])});
  return true;
}

bool Publisher::Read(const TrackedCb& cb, bool may_read, uint64_t (&ticks)[2], bool* points) {
  if (cb.read_ahead) return TakeRead(cb, ticks, points);
  return may_read && ReadRun(*static_cast<Recording*>(cb.recording), cb.run, ticks, points);
}

GpuSpan Publisher::HostSpanOf(Queue& queue, const TrackedCb& cb, bool may_read) {
  GpuSpan span = queue.tracker.HostSpan(cb.committed_ns, cb.seen_ns);
  // It was seen complete some time after it was. If the next one has begun by then, that bounds it.
  const TrackedCb* next = queue.tracker.Behind(1);
  const auto* next_recording = next != nullptr ? static_cast<const Recording*>(next->recording) : nullptr;
  uint64_t ticks[2];
  if (next_recording != nullptr && next->seen_ns != 0 && next_recording->begun &&
      Read(*next, may_read, ticks, nullptr)) {
    const uint64_t begin_ns = clock_.ToNs(ticks[0], next_recording->valid_bits);
    if (begin_ns > span.start_ns) span.end_ns = std::min(span.end_ns, begin_ns);
  }
  const auto* recording = static_cast<const Recording*>(cb.recording);
  if (recording == nullptr) return span;
  const uint64_t usual_ns = shapes_.Median(recording->shape);
  if (!recording->has_work) {
    span.end_ns = span.start_ns;
  } else if (!recording->ops.empty() && usual_ns > 0 && usual_ns < span.end_ns - span.start_ns) {
    span.start_ns = span.end_ns - usual_ns;
  }
  return span;
}

Publisher::Times Publisher::TimesOf(Queue& queue, const TrackedCb& cb, bool may_read) {
  const auto* recording = static_cast<const Recording*>(cb.recording);
  Times times;
  uint64_t ticks[2];
  const bool timed = recording != nullptr && recording->begun;
  if (!timed || !Read(cb, may_read, ticks, &times.sampled)) {
    if (timed) Skip(kApi, event::SkipReason::kResultLost, "GPU times could not be read in time");
    times.span = HostSpanOf(queue, cb, may_read);
    return times;
  }
  times.measured = true;
  const uint32_t bits = recording->valid_bits;
  clock_.LearnFromWork(ticks[0], ticks[1], cb.committed_ns, cb.seen_ns, bits);
  const uint64_t start_ns = clock_.ToNs(ticks[0], bits);
  const GpuSpan raw{.start_ns = start_ns, .end_ns = start_ns + clock_.DurationNs(ticks[0], ticks[1], bits)};
  const CheckedSpan checked = ClampToHost(raw, cb.committed_ns, cb.seen_ns);
  if (checked.epoch_error_ns != 0) {
    clock_.ShiftEpoch(checked.epoch_error_ns);
    Skip(kApi, event::SkipReason::kCalibration, "the device's clock was off; corrected");
  }
  times.span = checked.span;
  const uint64_t measured_ns = times.span.end_ns - times.span.start_ns;
  const auto points = static_cast<uint32_t>(recording->points.size());
  if (!recording->sampled || points == 0) {
    times.sampled = false;
    if (!recording->ops.empty()) shapes_.Add(recording->shape, measured_ns);
    return times;
  }
  const uint64_t usual = shapes_.Median(recording->shape);
  device_.budget.NotePoints(points);
  device_.budget.NotePrice(measured_ns, usual, points);
  times.span.end_ns =
      times.span.start_ns + UnsampledSpan(measured_ns, usual, points, device_.budget.price_ns());
  return times;
}

void Publisher::Publish(Queue& queue, const TrackedCb& cb, bool may_read) {
  Times times = TimesOf(queue, cb, may_read);
  times.span = queue.tracker.Complete(times.span);
  device_.budget.Earn(times.span.end_ns - times.span.start_ns);
  if (times.measured) {
    EmitAt(kApi, times.span.start_ns, event::CbScheduled{.cb_id = cb.cb_id, .queue_id = queue.id});
  }
  EmitAt(
      kApi, times.span.end_ns,
      event::CbCompleted{.cb_id = cb.cb_id,
                         .queue_id = queue.id,
                         .status = event::CbStatus::kCompleted,
                         .in_flight_ns = times.span.end_ns - std::min(times.span.end_ns, cb.committed_ns),
                         .gpu_start_ns = times.span.start_ns,
                         .gpu_end_ns = times.span.end_ns,
                         .time_source = times.measured ? event::TimeSource::kGpu : event::TimeSource::kHost});
  const auto* recording = static_cast<const Recording*>(cb.recording);
  if (recording != nullptr && !recording->ops.empty()) PublishOps(cb, *recording, times);
}

void Publisher::PublishOps(const TrackedCb& cb, const Recording& recording, const Times& times) {
  const uint64_t span_ns = times.span.end_ns - times.span.start_ns;
  if (!times.sampled) boundaries_.Clear();
  if (!times.sampled && times.measured && recording.one_group()) {
    boundaries_.Push({.op_count = static_cast<uint32_t>(recording.ops.size()), .ns = span_ns});
  }
  const auto merged =
      splitter_.Split(recording.ops.view(), boundaries_.view(), span_ns, device_.budget.price_ns());
  size_t filled = 0;
  const auto flush = [&] {
    EmitAt(kApi, times.span.end_ns,
           event::CbOps{.cb_id = cb.cb_id, .ops = std::span<const event::OpSample>(samples_.data(), filled)});
    filled = 0;
  };
  for (const MergedOp& part : merged) {
    const RecordedOp& op = recording.ops[part.first];
    const Kernel& kernel = *reinterpret_cast<const Kernel*>(op.kernel);
    // A recording that runs again belongs to who submits it, not to who recorded it.
    const bool own_scope = cb.run <= 1 || op.scope_is_label;
    samples_[filled] = {.name = InternedOpName(kernel, op, filled),
                        .symbol = kernel.hash != 0 ? event::Text(kernel.symbol) : event::Text(),
                        .type = op.type,
                        .gpu_ns = part.gpu_ns,
                        .count = part.count,
                        .scope_id = own_scope ? op.scope_id : event::ScopeId{},
                        .precision = part.precision,
                        .local_x = kernel.local[0],
                        .local_y = kernel.local[1],
                        .local_z = kernel.local[2]};
    if (++filled == kOpsPerEvent) flush();
  }
  if (filled > 0) flush();
}

event::Text Publisher::InternedOpName(const Kernel& kernel, const RecordedOp& op, size_t slot) {
  const uint64_t key = kernel.hash == 0 ? op.kernel : MixOp(0, op.kernel, op.x, op.y, op.z);
  if (const auto known = names_.find(key); known != names_.end()) return {std::string_view{}, known->second};
  const std::string_view name = OpName(kernel, op.x, op.y, op.z, name_space_[slot]);
  const uint32_t id = Writer().Intern(name);
  if (id == 0) return name;
  if (names_.size() >= kMaxNames) names_.clear();
  names_[key] = id;
  return {name, id};
}

void Publisher::PublishFailed(Queue& queue, const TrackedCb& cb, event::CbStatus status, VkResult error,
                              uint64_t now_ns) {
  EmitAt(kApi, now_ns,
         event::CbCompleted{.cb_id = cb.cb_id,
                            .queue_id = queue.id,
                            .status = status,
                            .error_code = error,
                            .error_domain = error != VK_SUCCESS ? event::Text("VkResult") : event::Text(),
                            .in_flight_ns = now_ns - std::min(now_ns, cb.committed_ns),
                            .time_source = event::TimeSource::kHost});
  // Which kernels were in it is what one wants to know of work that failed.
  const auto* recording = static_cast<const Recording*>(cb.recording);
  if (status != event::CbStatus::kError || recording == nullptr || recording->ops.empty()) return;
  PublishOps(cb, *recording, {.span = {.start_ns = now_ns, .end_ns = now_ns}});
}

void Publisher::WarnSlow(Queue& queue, const TrackedCb& cb, uint64_t now_ns) {
  char space[kOpNameBytes];
  event::CbWarning warning{
      .cb_id = cb.cb_id, .queue_id = queue.id, .elapsed_ns = now_ns - std::min(now_ns, cb.committed_ns)};
  const auto* recording = static_cast<const Recording*>(cb.recording);
  // llvmpipe would block here until the slow work is done.
  if (recording != nullptr && recording->sampled && !device_.traits.llvmpipe) {
    for (size_t i = recording->points.size(); i-- > 0;) {
      uint64_t ticks = 0;
      const QueryRange& chunk = recording->chunks[i / QueryAllocator::kChunk];
      if (!ReadTimestamps(device_, chunk, static_cast<uint32_t>(i % QueryAllocator::kChunk), 1, &ticks))
        continue;
      const RecordedOp& op = recording->ops[recording->points[i] - 1];
      warning.last_op = OpName(*reinterpret_cast<const Kernel*>(op.kernel), op.x, op.y, op.z, space);
      break;
    }
  }
  EmitAt(kApi, now_ns, warning);
}

}  // namespace smeltr::hook::vulkan
