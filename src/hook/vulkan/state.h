// The layer's state of the program's Vulkan objects, and how to find it.
//
// Ownership: an Instance and its Devices live from create to destroy; a Device owns its queues, pools and
// command buffers' states. A Recording is shared by its command buffer and the submissions in flight
// (recording.h). Handles are never wrapped.
// Threads: fields without a remark belong to whoever may use the Vulkan object by the interface's own rules
// of external synchronisation.
#pragma once

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include "event/event.h"
#include "hook/core/cb_tracker.h"
#include "hook/core/op_timing.h"
#include "hook/core/runtime.h"
#include "hook/vulkan/dispatch.h"
#include "hook/vulkan/handle_map.h"
#include "hook/vulkan/kernel.h"
#include "hook/vulkan/pod_array.h"
#include "hook/vulkan/spirv.h"
#include "hook/vulkan/timestamps.h"

namespace smeltr::hook::vulkan {

struct Device;
struct Recording;
class Poller;

inline constexpr event::Api kApi = event::Api::kVulkan;

struct Instance {
  VkInstance handle = VK_NULL_HANDLE;
  InstanceTable next;
  uint32_t api_version = VK_API_VERSION_1_0;  // As the program asked for.
  char application[128] = {};                 // What it calls itself.
  bool passthrough = false;                   // Not recorded: all calls go straight down.
  bool hide_properties2 = false;              // Properties2 is on by our doing only.
};

struct Queue {
  VkQueue handle = VK_NULL_HANDLE;
  Device* device = nullptr;
  event::QueueId id{};
  uint32_t family = 0;
  uint32_t valid_bits = 0;
  CbTracker tracker;
  Queue* next_of_device = nullptr;  // Constant once reachable.

  // Completion: the timeline's value is the number of the last complete submission, or else fences stand
  // for the submissions whose numbers they carry.
  VkSemaphore timeline = VK_NULL_HANDLE;
  FenceRing fences;
  std::atomic<uint64_t> completed{0};  // As far as anyone has looked.

  // Open debug labels: of the queue itself, and of command buffers that left theirs open.
  PodArray<event::ScopeId> labels;
  PodArray<event::ScopeId> inherited_labels;

  // Scratch of the submitting thread.
  PodArray<VkSubmitInfo> submits;
  PodArray<VkSubmitInfo2> submits2;
  PodArray<VkBindSparseInfo> sparse_binds;
};

struct CommandPool {
  uint32_t family = 0;
  bool is_protected = false;
  std::vector<struct CommandBuffer*> buffers;
};

struct CommandBuffer {
  VkCommandBuffer handle = VK_NULL_HANDLE;
  Device* device = nullptr;
  CommandPool* pool = nullptr;
  Recording* recording = nullptr;  // Of the commands it holds now; null before the first begin.
  bool secondary = false;
  // The recording before this one was submitted exactly once: the program records afresh for every
  // submission.
  bool submitted_once = false;
  std::string label;  // Its debug name.
};

struct Pipeline {
  const Kernel* unnamed = nullptr;             // By its content alone.
  std::atomic<const Kernel*> kernel{nullptr};  // With its debug name, if it has one.
};

struct Module {
  ShaderFacts facts;
  std::string debug_name;  // Under Device::names_mutex.
};

struct Memory {
  event::HeapId id{};
  uint64_t size_bytes = 0;
  uint32_t heap_index = 0;
  bool imported = false;
};

struct Buffer {
  event::BufferId id{};
  uint64_t size_bytes = 0;
  bool announced = false;  // BufferAlloc was sent.
  std::string label;
};

struct Image {
  event::TextureId id{};
  bool announced = false;
  bool disjoint = false;  // Its planes have memory of their own.
  std::string label;
};

// What was found out about the device, constant after its creation.
struct DeviceTraits {
  bool llvmpipe = false;
  bool device_group = false;
  bool timeline = false;
  bool host_query_reset = false;
  bool calibrated_timestamps = false;
  bool memory_budget = false;
  // Functions that are there by our doing only and stay invisible to the program.
  bool hide_timeline = false;
  bool hide_host_query_reset = false;
  bool hide_calibrated_timestamps = false;
  double ns_per_tick = 1.0;
};

struct Device {
  explicit Device(const DeviceTraits& found)
      : traits(found), budget(found.llvmpipe ? kLlvmpipeTimestampNs : kTimestampNs) {}

  // Whether this process still records this device: not after fork.
  bool recorded() const { return !passthrough && Active() && Generation() == generation; }

  VkDevice handle = VK_NULL_HANDLE;
  VkPhysicalDevice physical = VK_NULL_HANDLE;
  Instance* instance = nullptr;
  DeviceTable next;
  const DeviceTraits traits;
  bool passthrough = false;
  uint32_t generation = 0;
  event::DeviceId id{};
  std::vector<VkQueueFamilyProperties> families;
  VkPhysicalDeviceMemoryProperties memory_properties{};
  std::atomic<bool> lost{false};

  std::atomic<Queue*> queues{nullptr};
  std::mutex queue_mutex;  // For adding one.

  HandleMap<CommandPool, 64> command_pools;
  HandleMap<Pipeline, 1024> pipelines;
  HandleMap<Module, 1024> modules;
  std::mutex names_mutex;  // Debug names of modules.
  HandleMap<Memory, 1024> memories;
  HandleMap<Buffer, 4096> buffers;
  HandleMap<Image, 1024> images;
  std::atomic<uint64_t> heap_live_bytes[VK_MAX_MEMORY_HEAPS] = {};
  std::atomic<uint64_t> last_memory_sample_ns{0};

  std::mutex recording_mutex;  // For the spare lists.
  std::vector<Recording*> spare_recordings;
  QueryAllocator queries;
  TimestampBudget budget;

  Poller* poller = nullptr;

  static constexpr int64_t kLlvmpipeTimestampNs = 45'000;
  static constexpr int64_t kTimestampNs = 2'000;
};

// Instances and devices are keyed by the loader's dispatch pointer, the first word of every dispatchable
// handle, which physical devices, queues and command buffers share with their parent.
template <typename Dispatchable>
uint64_t DispatchKey(Dispatchable handle) {
  return reinterpret_cast<uintptr_t>(*reinterpret_cast<void* const*>(handle));
}

using InstanceMap = HandleMap<Instance, 64>;
using DeviceMap = HandleMap<Device, 64>;
using QueueMap = HandleMap<Queue, 256>;
using CommandBufferMap = HandleMap<CommandBuffer, 4096>;
InstanceMap& Instances();
DeviceMap& Devices();
QueueMap& Queues();
CommandBufferMap& CommandBuffers();

template <typename Dispatchable>
Device* FindDevice(Dispatchable handle) {
  return Devices().Find(DispatchKey(handle));
}

// Queues are found by handle, any thread.
inline Queue* FindQueue(VkQueue queue) { return Queues().Find(HandleKey(queue)); }

// In a forked child: locks that threads of the parent may have held.
void ResetLocksAfterFork();

// The one place for results of intercepted calls: negative ones become ApiError; the first loss of a device
// is remembered. Returns `result`.
struct CallContext {
  event::QueueId queue_id{};
  uint64_t requested_bytes = 0;
};
VkResult Report(Device& device, std::string_view call, VkResult result, const CallContext& context = {});
std::string_view ResultName(VkResult result);

}  // namespace smeltr::hook::vulkan
