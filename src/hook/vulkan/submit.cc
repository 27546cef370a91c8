// Submissions: each command buffer is announced before the call goes down, and the call is given one more,
// empty batch that raises the queue's own timeline semaphore (or is followed by a fence of ours where there
// are no timelines). Nothing the program passed is changed.

#include <time.h>

#include <new>
#include <span>

#include "base/clock.h"
#include "hook/core/scopes.h"
#include "hook/vulkan/hooks.h"
#include "hook/vulkan/labels.h"
#include "hook/vulkan/poller.h"
#include "hook/vulkan/recording.h"

namespace smeltr::hook::vulkan {
namespace {

constexpr uint64_t kReadingLimitNs = 1'000'000'000;

// The queries of a recording that ran before are needed again: keep what they say, then reset them.
void PrepareRerun(Recording& recording, bool device_idle) {
  Device& device = *recording.device;
  // Reading may block on llvmpipe, but not on an idle device; and nobody else submits to this queue now.
  const bool may_read = !device.traits.llvmpipe || device_idle;
  const uint32_t run = recording.runs.load(std::memory_order_relaxed);
  const uint64_t give_up_ns = MonotonicNowNs() + kReadingLimitNs;
  while (recording.query_busy.test_and_set(std::memory_order_acquire)) {
    // The watching thread is reading, which takes 0.1 us on a GPU. On llvmpipe it lasts until the work in
    // flight is done, and submitting queries that were not reset would be wrong: so wait, but not for ever,
    // since that work may itself wait for this submission.
    if (MonotonicNowNs() > give_up_ns) {
      recording.runs.store(run + 1, std::memory_order_relaxed);
      return Skip(kApi, event::SkipReason::kResultLost, "results still being read");
    }
    const timespec moment{.tv_sec = 0, .tv_nsec = 20'000};
    nanosleep(&moment, nullptr);
  }
  if (recording.read_run.load(std::memory_order_relaxed) != run) {
    uint64_t ticks[2];
    if (may_read && ReadTimestamps(device, recording.pair, 0, 2, ticks)) {
      SavedRun* saved = recording.saved.load(std::memory_order_relaxed);
      if (saved == nullptr) {
        saved = new (std::nothrow) SavedRun[Recording::kSavedRuns];
        recording.saved.store(saved, std::memory_order_release);
      }
      if (saved != nullptr) {
        SavedRun& slot = saved[run % Recording::kSavedRuns];
        slot.run.store(0, std::memory_order_release);
        slot.begin_ticks.store(ticks[0], std::memory_order_relaxed);
        slot.end_ticks.store(ticks[1], std::memory_order_relaxed);
        slot.run.store(run, std::memory_order_release);
      }
    }  // Else the watching thread will miss them, and say so.
  }
  if (device.traits.host_query_reset) {
    device.next.ResetQueryPool(device.handle, recording.pair.pool, recording.pair.first,
                               recording.pair.count);
    for (const QueryRange& chunk : recording.chunks) {
      device.next.ResetQueryPool(device.handle, chunk.pool, chunk.first, chunk.count);
    }
  }
  // The run number moves while the queries are held, so that a reader knows whose values they are.
  recording.runs.store(run + 1, std::memory_order_relaxed);
  recording.query_busy.clear(std::memory_order_release);
}

// One submit call on its way through.
class Submission {
 public:
  Submission(Queue& queue, uint32_t command_buffer_count, event::CbType type)
      : queue_(queue), type_(type), tracked_(queue.tracker.Begin(command_buffer_count)) {
    if (!tracked_) {
      Skip(kApi, event::SkipReason::kTableFull, "submissions in flight");
      return;
    }
    completed_ = RefreshCompleted(queue);
    depth_ = queue.tracker.DepthWith(completed_);
    scope_ = SubmissionScope(queue);
    now_ns_ = MonotonicNowNs();
    submission_id_ = NextId();
  }

  // A command buffer of it, in order; null for work without one.
  void Add(VkCommandBuffer handle) {
    if (!tracked_) return;
    const CommandBuffer* buffer = handle != nullptr ? FindCommandBuffer(handle) : nullptr;
    Recording* recording = buffer != nullptr ? buffer->recording : nullptr;
    TrackedCb cb{.cb_id = event::CbId{NextId()},
                 .scope_id = scope_,
                 .submission = queue_.tracker.next_submission(),
                 .committed_ns = now_ns_,
                 .recording = recording};
    if (recording != nullptr) {
      Acquire(*recording);
      cb.run = StartRun(*recording);
      PassLabelsOn(queue_, *recording);
      scope_ = SubmissionScope(queue_);
    }
    queue_.tracker.Add(cb);
    EmitAt(kApi, now_ns_,
           event::CbCommitted{
               .cb_id = cb.cb_id,
               .queue_id = queue_.id,
               .queue_depth = depth_,
               .scope_id = cb.scope_id,
               .label = buffer != nullptr ? event::Text(std::string_view(buffer->label)) : event::Text(),
               .type = type_,
               .submission = submission_id_});
  }

  bool tracked() const { return tracked_; }
  uint64_t number() const { return queue_.tracker.next_submission(); }

  VkResult Finish(std::string_view call, VkResult result) {
    if (!tracked_) return Report(*queue_.device, call, result, {.queue_id = queue_.id});
    if (result == VK_SUCCESS) {
      queue_.tracker.Commit();
      queue_.device->poller->NoteSubmission();
      return result;
    }
    for (uint32_t i = 0; i < queue_.tracker.added_count(); ++i) Abandon(queue_.tracker.added(i), result);
    queue_.tracker.RollBack();
    return Report(*queue_.device, call, result, {.queue_id = queue_.id});
  }

 private:
  uint32_t StartRun(Recording& recording) {
    const uint32_t earlier = recording.runs.load(std::memory_order_relaxed);
    if (earlier == 0 || !recording.begun) {
      recording.runs.store(earlier + 1, std::memory_order_relaxed);
    } else {
      if (!recording.fresh_each_time) {
        Skip(kApi, event::SkipReason::kReusedRecording, "no per-op timestamps in recordings submitted again");
      }
      // The program knows its last run to be complete. If nothing was submitted since, all is.
      PrepareRerun(recording, recording.last_submission == queue_.tracker.last_submission());
    }
    recording.last_submission = number();
    return earlier + 1;
  }

  void Abandon(const TrackedCb& cb, VkResult result) {
    if (auto* recording = static_cast<Recording*>(cb.recording)) {
      recording->runs.store(cb.run - 1, std::memory_order_relaxed);
      Release(*recording);
    }
    Emit(kApi, event::CbCompleted{.cb_id = cb.cb_id,
                                  .queue_id = queue_.id,
                                  .status = event::CbStatus::kAbandoned,
                                  .error_code = result,
                                  .error_domain = "VkResult",
                                  .in_flight_ns = MonotonicNowNs() - cb.committed_ns,
                                  .time_source = event::TimeSource::kHost});
  }

  Queue& queue_;
  event::CbType type_;
  bool tracked_;
  uint64_t completed_ = 0;
  uint32_t depth_ = 0;
  event::ScopeId scope_{};
  uint64_t now_ns_ = 0;
  uint64_t submission_id_ = 0;
};

// Protected work must not be mixed with other batches: such a call gets none of ours.
bool HasProtected(const VkSubmitInfo& submit) {
  for (auto* next = static_cast<const VkBaseInStructure*>(submit.pNext); next != nullptr;
       next = next->pNext) {
    if (next->sType == VK_STRUCTURE_TYPE_PROTECTED_SUBMIT_INFO) {
      return reinterpret_cast<const VkProtectedSubmitInfo*>(next)->protectedSubmit == VK_TRUE;
    }
  }
  return false;
}
bool HasProtected(const VkSubmitInfo2& submit) { return (submit.flags & VK_SUBMIT_PROTECTED_BIT) != 0; }
bool HasProtected(const VkBindSparseInfo&) { return false; }

// What our batch signals, in the shape each call wants. Lives until the call returns.
struct TimelineSignal {
  TimelineSignal(VkSemaphore timeline, uint64_t number) : semaphore(timeline), value(number) {
    values.sType = VK_STRUCTURE_TYPE_TIMELINE_SEMAPHORE_SUBMIT_INFO;
    values.signalSemaphoreValueCount = 1;
    values.pSignalSemaphoreValues = &value;
    signal.sType = VK_STRUCTURE_TYPE_SEMAPHORE_SUBMIT_INFO;
    signal.semaphore = semaphore;
    signal.value = value;
    signal.stageMask = VK_PIPELINE_STAGE_2_ALL_COMMANDS_BIT;
  }
  void Fill(VkSubmitInfo& batch) const {
    batch.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO;
    batch.pNext = &values;
    batch.signalSemaphoreCount = 1;
    batch.pSignalSemaphores = &semaphore;
  }
  void Fill(VkSubmitInfo2& batch) const {
    batch.sType = VK_STRUCTURE_TYPE_SUBMIT_INFO_2;
    batch.signalSemaphoreInfoCount = 1;
    batch.pSignalSemaphoreInfos = &signal;
  }
  void Fill(VkBindSparseInfo& batch) const {
    batch.sType = VK_STRUCTURE_TYPE_BIND_SPARSE_INFO;
    batch.pNext = &values;
    batch.signalSemaphoreCount = 1;
    batch.pSignalSemaphores = &semaphore;
  }
  VkSemaphore semaphore;
  uint64_t value;
  VkTimelineSemaphoreSubmitInfo values{};
  VkSemaphoreSubmitInfo signal{};
};

void SignalByFence(Queue& queue, uint64_t number) {
  Device& device = *queue.device;
  const VkFence fence = queue.fences.Take(device);
  if (fence == VK_NULL_HANDLE) return;
  if (device.next.QueueSubmit(queue.handle, 0, nullptr, fence) == VK_SUCCESS) queue.fences.Add(number);
}

// Calls `next` with the program's batches and ours.
template <typename Batch, typename Next>
VkResult PassDown(Queue& queue, const Submission& submission, PodArray<Batch>& scratch,
                  std::span<const Batch> batches, Next next) {
  if (!submission.tracked()) return next(static_cast<uint32_t>(batches.size()), batches.data());
  bool mixed = false;
  for (const Batch& batch : batches) mixed = mixed || HasProtected(batch);
  scratch.Clear();
  if (queue.timeline == VK_NULL_HANDLE || mixed || !scratch.Append(batches) || !scratch.Push(Batch{})) {
    const VkResult result = next(static_cast<uint32_t>(batches.size()), batches.data());
    if (result == VK_SUCCESS) SignalByFence(queue, submission.number());
    return result;
  }
  const TimelineSignal signal(queue.timeline, submission.number());
  signal.Fill(scratch.back());
  return next(static_cast<uint32_t>(scratch.size()), scratch.begin());
}

}  // namespace

VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit(VkQueue handle, uint32_t count, const VkSubmitInfo* submits,
                                           VkFence fence) {
  Queue* queue = FindQueue(handle);
  if (queue == nullptr) return FindDevice(handle)->next.QueueSubmit(handle, count, submits, fence);
  Device& device = *queue->device;
  const auto next = [&](uint32_t batch_count, const VkSubmitInfo* batches) {
    return device.next.QueueSubmit(handle, batch_count, batches, fence);
  };
  uint32_t buffers = 0;
  for (uint32_t i = 0; i < count; ++i) buffers += submits[i].commandBufferCount;
  if (!device.recorded() || buffers == 0) {
    return Report(device, "vkQueueSubmit", next(count, submits), {.queue_id = queue->id});
  }
  Submission submission(*queue, buffers, event::CbType::kCommands);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t j = 0; j < submits[i].commandBufferCount; ++j)
      submission.Add(submits[i].pCommandBuffers[j]);
  }
  return submission.Finish(
      "vkQueueSubmit", PassDown<VkSubmitInfo>(*queue, submission, queue->submits, {submits, count}, next));
}

VKAPI_ATTR VkResult VKAPI_CALL QueueSubmit2(VkQueue handle, uint32_t count, const VkSubmitInfo2* submits,
                                            VkFence fence) {
  Queue* queue = FindQueue(handle);
  Device& device = queue != nullptr ? *queue->device : *FindDevice(handle);
  if (device.next.QueueSubmit2 == nullptr) return VK_ERROR_EXTENSION_NOT_PRESENT;
  const auto next = [&](uint32_t batch_count, const VkSubmitInfo2* batches) {
    return device.next.QueueSubmit2(handle, batch_count, batches, fence);
  };
  uint32_t buffers = 0;
  for (uint32_t i = 0; i < count; ++i) buffers += submits[i].commandBufferInfoCount;
  if (queue == nullptr || !device.recorded() || buffers == 0) {
    return Report(device, "vkQueueSubmit2", next(count, submits));
  }
  Submission submission(*queue, buffers, event::CbType::kCommands);
  for (uint32_t i = 0; i < count; ++i) {
    for (uint32_t j = 0; j < submits[i].commandBufferInfoCount; ++j) {
      submission.Add(submits[i].pCommandBufferInfos[j].commandBuffer);
    }
  }
  return submission.Finish(
      "vkQueueSubmit2", PassDown<VkSubmitInfo2>(*queue, submission, queue->submits2, {submits, count}, next));
}

VKAPI_ATTR VkResult VKAPI_CALL QueueBindSparse(VkQueue handle, uint32_t count, const VkBindSparseInfo* binds,
                                               VkFence fence) {
  Queue* queue = FindQueue(handle);
  Device& device = queue != nullptr ? *queue->device : *FindDevice(handle);
  const auto next = [&](uint32_t batch_count, const VkBindSparseInfo* batches) {
    return device.next.QueueBindSparse(handle, batch_count, batches, fence);
  };
  if (queue == nullptr || !device.recorded() || count == 0) {
    return Report(device, "vkQueueBindSparse", next(count, binds));
  }
  Submission submission(*queue, 1, event::CbType::kSparse);
  submission.Add(nullptr);
  return submission.Finish(
      "vkQueueBindSparse",
      PassDown<VkBindSparseInfo>(*queue, submission, queue->sparse_binds, {binds, count}, next));
}

}  // namespace smeltr::hook::vulkan
