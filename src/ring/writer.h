// The writing side: any thread of the traced process appends events.
// Never blocks, never allocates, never enters the kernel (guarantees in layout.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/clock.h"
#include "event/frame.h"
#include "ring/layout.h"

namespace smeltr::ring {

namespace internal {

// The block that the calling thread appends to. Only a thread itself touches its own.
struct ThreadBlock {
  uint32_t generation;  // Of the writer that claimed the block; 0 = the thread has none.
  uint32_t used_bytes;
  std::byte* data;
  BlockHeader* header;
  uint32_t tid;
  bool writing;          // Inside a write: a signal handler that interrupts it must not write as well.
  bool released_at_end;  // The thread's end will close the block.
};
extern constinit thread_local ThreadBlock t_block;

}  // namespace internal

// A view on a mapped ring. One per process; constant-initialisable; no destructor.
class Writer {
 public:
  constexpr Writer() = default;

  // `ring` must stay mapped as long as any thread may write. `generation` (1, 2 ...) tells this ring from
  // those the process had before a fork: per-thread blocks of another generation are forgotten.
  void Attach(RingHeader* ring, uint32_t generation);

  // True when the event is in the ring; false when it was dropped and counted. A frame larger than a
  // block, and a write from a signal handler that interrupted another write, are dropped.
  template <typename E>
  bool WriteAt(event::Api api, uint64_t ts_ns, const E& fields) {
    internal::ThreadBlock& block = internal::t_block;
    bool written = false;
    if (!block.writing) {
      block.writing = true;
      std::atomic_signal_fence(std::memory_order_seq_cst);
      written = (block.generation == generation_ && Append(block, api, ts_ns, fields)) ||
                AppendToFresh(block, api, ts_ns, fields);
      std::atomic_signal_fence(std::memory_order_seq_cst);
      block.writing = false;
    }
    if (!written) CountDropped(E::kKind, 1);
    return written;
  }
  template <typename E>
  bool Write(event::Api api, const E& fields) {
    return WriteAt(api, MonotonicNowNs(), fields);
  }

  // The id of `text` in the ring's string table, adding it if new; 0 when the table is full or the
  // text too long. For names used again and again: event::Text{text, id} then skips the lookup.
  uint32_t Intern(std::string_view text);

  void CountDropped(event::Kind kind, uint64_t count);
  // Closes the calling thread's block. Called by itself when a thread ends.
  void ReleaseThreadBlock();
  // Says goodbye to the reader. Writing goes on working.
  void MarkClosed();

  // For the child after a fork, whose blocks are the parent's.
  static void ForgetThreadBlock();

 private:
  static constexpr uint32_t kNotAttached = UINT32_MAX;

  // False when the frame does not fit into what is left of the block. Inlined into the caller, fields that
  // it leaves at their defaults cost nothing to look at.
  template <typename E>
  [[gnu::always_inline]] bool Append(internal::ThreadBlock& block, event::Api api, uint64_t ts_ns,
                                     const E& fields) {
    const std::span<std::byte> space(block.data + block.used_bytes, kBlockBytes - block.used_bytes);
    const size_t size = event::EncodeFrame(api, ts_ns, fields, *this, space);
    if (size == 0) return false;
    block.used_bytes +=
        static_cast<uint32_t>((size + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment);
    // Release pairs with the reader's acquire: the frame's bytes are there before its end is.
    block.header->committed.store(block.used_bytes, std::memory_order_release);
    return true;
  }

  template <typename E>
  [[gnu::noinline]] bool AppendToFresh(internal::ThreadBlock& block, event::Api api, uint64_t ts_ns,
                                       const E& fields) {
    return RenewBlock(block) && Append(block, api, ts_ns, fields);
  }

  // Closes the thread's block and claims a free one. False when there is none, or would be no use.
  bool RenewBlock(internal::ThreadBlock& block);

  RingHeader* ring_ = nullptr;
  uint32_t generation_ = kNotAttached;
  uint32_t block_count_ = 0;  // Those that any event may use.
};

}  // namespace smeltr::ring
