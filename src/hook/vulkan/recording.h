// One recording of a command buffer: the ops between begin and end, and the timestamps written among them.
//
// It outlives the command buffer's next begin: submissions in flight keep theirs. From end on, ops and points
// do not change, and the watching thread may read them. Timestamps: two around everything that makes the GPU
// work (none in an empty recording), and, in sampled recordings, one where the program itself synchronises
// (before barriers, around render passes), or, on request of the user, behind every op.
#pragma once

#include <atomic>
#include <cstdint>

#include "hook/vulkan/state.h"

namespace smeltr::hook::vulkan {

enum class BindPoint : uint8_t { kCompute, kGraphics, kRayTracing, kNone };

// The pair's values of a run whose queries were needed again before the watching thread came by.
struct SavedRun {
  std::atomic<uint32_t> run{0};  // Stored last; 0 while being written.
  std::atomic<uint64_t> begin_ticks{0};
  std::atomic<uint64_t> end_ticks{0};
};

struct Recording {
  static constexpr uint32_t kMaxOps = 1 << 20;
  static constexpr uint32_t kSavedRuns = 32;

  std::atomic<uint32_t> references{0};
  Device* device = nullptr;

  PodArray<RecordedOp> ops;
  PodArray<uint32_t> points;      // For each extra timestamp: how many ops came before it.
  uint64_t shape = 0;             // Hash over ops and barriers, for comparing spans.
  uint32_t boundary_ops = 0;      // Ops before the last place where the program synchronised.
  uint32_t inner_boundaries = 0;  // Such places between ops.
  uint32_t valid_bits = 0;

  QueryRange pair;
  PodArray<QueryRange> chunks;  // Point i has query i % kChunk of chunk i / kChunk.

  bool one_time = false;
  bool simultaneous = false;
  bool fresh_each_time = false;  // One-time, or its command buffer was so used before.
  bool may_time = false;         // Queries may be written.
  bool begun = false;            // The begin timestamp is written.
  bool has_work = false;
  bool sampled = false;
  bool budget_spent = false;  // No further points in this one.
  bool in_render_pass = false;
  bool suspended = false;  // Between a suspended render pass and its resumption no timestamp is allowed.
  const Kernel* bound[4] = {};

  // Labels opened here and not closed; labels closed here that an earlier command buffer opened.
  PodArray<event::ScopeId> labels;
  uint32_t closes_inherited = 0;

  // --- runs ---
  std::atomic<uint32_t> runs{0};      // Submissions so far.
  uint64_t last_submission = 0;       // The number of the last on its queue. Submitting thread.
  std::atomic<uint32_t> read_run{0};  // The last run whose queries were read.
  std::atomic_flag query_busy{};      // Someone reads or resets the queries.
  std::atomic<SavedRun*> saved{nullptr};

  // All ops may overlap: the pair of timestamps already says all there is to know about them.
  bool one_group() const {
    return inner_boundaries == 0 || (inner_boundaries == 1 && boundary_ops == ops.size());
  }
};

// The state of a command buffer, or nullptr for one the layer never saw. Caches per thread.
CommandBuffer* FindCommandBuffer(VkCommandBuffer handle);
// After the states of command buffers were given back: caches of all threads are void.
void ForgetCachedCommandBuffers();

// Any thread. Release gives the recording and its queries back when the last reference goes.
void Acquire(Recording& recording);
void Release(Recording& recording);

// Begins a new recording in `buffer`; ends the one it had.
void StartRecording(CommandBuffer& buffer, const VkCommandBufferBeginInfo& info);
void DropRecording(CommandBuffer& buffer);

// What the hooks of recorded commands use: finds the state once, then does nothing where nothing is to be
// done.
class Recorder {
 public:
  explicit Recorder(VkCommandBuffer handle);

  // The next layer's functions; null only for handles of unknown devices.
  const DeviceTable* next() const { return next_; }
  Recording* recording() const { return recording_; }

  // Before and after a command that makes the GPU work.
  void BeforeOp();
  void AfterOp(const Kernel& kernel, event::OpType type, uint32_t x, uint32_t y, uint32_t z);
  // Before something that waits for earlier commands.
  void BeforeBarrier();
  void BeforeRenderPass(bool resumes = false, bool suspends = false);
  void AfterRenderPass();
  void ExecuteSecondaries(uint32_t count, const VkCommandBuffer* secondaries);
  // Before vkEndCommandBuffer.
  void Finish();

 private:
  void Begin();
  void NoteBoundary();
  // A timestamp inside, if the budget has it.
  void AddPoint(bool exact);

  VkCommandBuffer handle_;
  const DeviceTable* next_ = nullptr;
  Device* device_ = nullptr;
  Recording* recording_ = nullptr;
};

}  // namespace smeltr::hook::vulkan
