#include "hook/vulkan/labels.h"

#include <algorithm>

#include "hook/core/scopes.h"
#include "hook/vulkan/hooks.h"

namespace smeltr::hook::vulkan {
namespace {

event::ScopeId TopOf(const PodArray<event::ScopeId>& labels) {
  return labels.empty() ? event::ScopeId{} : labels.back();
}

// `name` belongs to the program: the event copies it.
void Open(PodArray<event::ScopeId>& labels, const char* name, event::ScopeId parent) {
  const uint32_t depth = CurrentDepth() + static_cast<uint32_t>(labels.size());
  const ScopeStart start{.name = name != nullptr ? name : "", .origin = event::ScopeOrigin::kDebugLabel};
  const event::ScopeId scope = EnterDetachedScope(start, parent, depth);
  if (!labels.Push(scope)) LeaveDetachedScope(scope);
}

void Close(PodArray<event::ScopeId>& labels) {
  LeaveDetachedScope(labels.back());
  labels.Pop();
}

void OpenIn(VkCommandBuffer handle, const char* name) {
  const Recorder recorder(handle);
  Recording* recording = recorder.recording();
  if (recording == nullptr) return;
  Open(recording->labels, name, Innermost(TopOf(recording->labels), CurrentScope()));
}

void CloseIn(VkCommandBuffer handle) {
  const Recorder recorder(handle);
  Recording* recording = recorder.recording();
  if (recording == nullptr) return;
  if (recording->labels.empty()) {
    ++recording->closes_inherited;
  } else {
    Close(recording->labels);
  }
}

void MarkIn(VkCommandBuffer handle, const char* name) {
  const Recorder recorder(handle);
  if (recorder.recording() != nullptr && name != nullptr) EmitMark(name, {});
}

Queue* RecordedQueue(VkQueue handle) {
  Queue* queue = FindQueue(handle);
  return queue != nullptr && queue->device->recorded() ? queue : nullptr;
}

}  // namespace

event::ScopeId SubmissionScope(const Queue& queue) {
  return Innermost(Innermost(CurrentScope(), TopOf(queue.labels)), TopOf(queue.inherited_labels));
}

void PassLabelsOn(Queue& queue, Recording& recording) {
  for (uint32_t i = 0; i < recording.closes_inherited && !queue.inherited_labels.empty(); ++i) {
    Close(queue.inherited_labels);
  }
  queue.inherited_labels.Append(recording.labels.view());
  recording.labels.Clear();
  recording.closes_inherited = 0;
}

// --- hooks ---

VKAPI_ATTR void VKAPI_CALL QueueBeginDebugUtilsLabelEXT(VkQueue handle, const VkDebugUtilsLabelEXT* label) {
  if (Queue* queue = RecordedQueue(handle)) Open(queue->labels, label->pLabelName, SubmissionScope(*queue));
  const Device* device = FindDevice(handle);
  if (device->next.QueueBeginDebugUtilsLabelEXT != nullptr) {
    device->next.QueueBeginDebugUtilsLabelEXT(handle, label);
  }
}

VKAPI_ATTR void VKAPI_CALL QueueEndDebugUtilsLabelEXT(VkQueue handle) {
  if (Queue* queue = RecordedQueue(handle); queue != nullptr && !queue->labels.empty()) Close(queue->labels);
  const Device* device = FindDevice(handle);
  if (device->next.QueueEndDebugUtilsLabelEXT != nullptr) device->next.QueueEndDebugUtilsLabelEXT(handle);
}

VKAPI_ATTR void VKAPI_CALL QueueInsertDebugUtilsLabelEXT(VkQueue handle, const VkDebugUtilsLabelEXT* label) {
  if (RecordedQueue(handle) != nullptr && label->pLabelName != nullptr) EmitMark(label->pLabelName, {});
  const Device* device = FindDevice(handle);
  if (device->next.QueueInsertDebugUtilsLabelEXT != nullptr) {
    device->next.QueueInsertDebugUtilsLabelEXT(handle, label);
  }
}

VKAPI_ATTR void VKAPI_CALL CmdBeginDebugUtilsLabelEXT(VkCommandBuffer handle,
                                                      const VkDebugUtilsLabelEXT* label) {
  OpenIn(handle, label->pLabelName);
  const Recorder recorder(handle);
  if (recorder.next()->CmdBeginDebugUtilsLabelEXT != nullptr) {
    recorder.next()->CmdBeginDebugUtilsLabelEXT(handle, label);
  }
}

VKAPI_ATTR void VKAPI_CALL CmdEndDebugUtilsLabelEXT(VkCommandBuffer handle) {
  CloseIn(handle);
  const Recorder recorder(handle);
  if (recorder.next()->CmdEndDebugUtilsLabelEXT != nullptr) recorder.next()->CmdEndDebugUtilsLabelEXT(handle);
}

VKAPI_ATTR void VKAPI_CALL CmdInsertDebugUtilsLabelEXT(VkCommandBuffer handle,
                                                       const VkDebugUtilsLabelEXT* label) {
  MarkIn(handle, label->pLabelName);
  const Recorder recorder(handle);
  if (recorder.next()->CmdInsertDebugUtilsLabelEXT != nullptr) {
    recorder.next()->CmdInsertDebugUtilsLabelEXT(handle, label);
  }
}

VKAPI_ATTR void VKAPI_CALL CmdDebugMarkerBeginEXT(VkCommandBuffer handle,
                                                  const VkDebugMarkerMarkerInfoEXT* info) {
  OpenIn(handle, info->pMarkerName);
  const Recorder recorder(handle);
  if (recorder.next()->CmdDebugMarkerBeginEXT != nullptr)
    recorder.next()->CmdDebugMarkerBeginEXT(handle, info);
}

VKAPI_ATTR void VKAPI_CALL CmdDebugMarkerEndEXT(VkCommandBuffer handle) {
  CloseIn(handle);
  const Recorder recorder(handle);
  if (recorder.next()->CmdDebugMarkerEndEXT != nullptr) recorder.next()->CmdDebugMarkerEndEXT(handle);
}

VKAPI_ATTR void VKAPI_CALL CmdDebugMarkerInsertEXT(VkCommandBuffer handle,
                                                   const VkDebugMarkerMarkerInfoEXT* info) {
  MarkIn(handle, info->pMarkerName);
  const Recorder recorder(handle);
  if (recorder.next()->CmdDebugMarkerInsertEXT != nullptr)
    recorder.next()->CmdDebugMarkerInsertEXT(handle, info);
}

}  // namespace smeltr::hook::vulkan
