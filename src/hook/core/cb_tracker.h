// The command buffers in flight of one queue: the submitting thread puts them in, the thread that watches the
// queue takes them out in order. Fixed size, no lock, no heap after Init.
//
// Submissions of a queue are numbered 1, 2, 3 ...; a submission holds one or more command buffers. A queue
// reports progress as "all submissions up to N are complete".
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "event/event.h"
#include "hook/core/op_timing.h"

namespace smeltr::hook {

struct TrackedCb {
  event::CbId cb_id{};
  event::ScopeId scope_id{};  // Of the submission.
  uint64_t submission = 0;    // Its number on the queue.
  uint64_t committed_ns = 0;
  void* recording = nullptr;  // Opaque; the owner releases it.
  uint64_t seen_ns = 0;       // When the watching side first knew it complete; 0 = not yet.
  uint32_t run = 0;           // Which run of the recording this is, from 1.
  bool warned = false;
  bool read_ahead = false;  // Its queries were read together with those of others.
  size_t read_at = 0;       // And lie there.
};

class CbTracker {
 public:
  static constexpr uint32_t kCapacity = 4096;  // A power of two.
  static constexpr uint64_t kSlowNs = 5'000'000'000;

  CbTracker() = default;
  CbTracker(const CbTracker&) = delete;
  CbTracker& operator=(const CbTracker&) = delete;
  ~CbTracker() { delete[] entries_; }
  // False when there is no memory for the table.
  bool Init();

  // --- the submitting side; one thread at a time ---
  // Begins a submission of `count` command buffers; false when the table has no room for them.
  bool Begin(uint32_t count);
  uint64_t next_submission() const { return last_submission() + 1; }
  // Any thread.
  uint64_t last_submission() const { return last_submission_.load(std::memory_order_relaxed); }
  // Submissions in flight with this one, by what is known to be complete.
  uint32_t DepthWith(uint64_t completed) const;
  void Add(const TrackedCb& cb);
  uint32_t added_count() const { return staged_count_; }
  const TrackedCb& added(uint32_t index) const { return At(tail_.load(std::memory_order_relaxed) + index); }
  // The submission went through: the watching side sees it from here on.
  void Commit();
  // It failed: nothing happened. The number is used again.
  void RollBack();

  // --- the watching side; one thread ---
  // The oldest command buffer in flight, or nullptr.
  TrackedCb* Front();
  // The one `places` behind it, or nullptr.
  TrackedCb* Behind(uint32_t places) const;
  void Pop();
  bool empty() const {
    return head_.load(std::memory_order_acquire) == tail_.load(std::memory_order_acquire);
  }
  // All submissions up to `completed` are complete, known from `now_ns` on.
  void MarkSeen(uint64_t completed, uint64_t now_ns);
  // The first one in flight for more than kSlowNs and not yet reported, marked as reported; or nullptr.
  TrackedCb* NextSlow(uint64_t now_ns);

  // The GPU span of a CB without timestamps: from the later of its commit and the previous completion on the
  // queue to its own completion as seen.
  GpuSpan HostSpan(uint64_t committed_ns, uint64_t seen_ns) const;
  // Trims `span` so that the queue's spans do not overlap, and takes note of its end.
  GpuSpan Complete(GpuSpan span);

 private:
  TrackedCb& At(uint64_t position) const { return entries_[position & (kCapacity - 1)]; }

  TrackedCb* entries_ = nullptr;
  // Submitting side. What has been added lies behind tail_, which Commit() moves.
  uint32_t staged_count_ = 0;
  std::atomic<uint64_t> last_submission_{0};
  alignas(64) std::atomic<uint64_t> tail_{0};
  // Watching side.
  alignas(64) std::atomic<uint64_t> head_{0};
  uint64_t previous_end_ns_ = 0;
};

}  // namespace smeltr::hook
