#include "hook/core/cb_tracker.h"

#include <algorithm>
#include <new>

namespace smeltr::hook {

bool CbTracker::Init() {
  entries_ = new (std::nothrow) TrackedCb[kCapacity];
  return entries_ != nullptr;
}

bool CbTracker::Begin(uint32_t count) {
  staged_count_ = 0;
  const uint64_t used = tail_.load(std::memory_order_relaxed) - head_.load(std::memory_order_acquire);
  return count <= kCapacity - used;
}

uint32_t CbTracker::DepthWith(uint64_t completed) const {
  return static_cast<uint32_t>(next_submission() - std::min(completed, last_submission()));
}

void CbTracker::Add(const TrackedCb& cb) {
  At(tail_.load(std::memory_order_relaxed) + staged_count_) = cb;
  ++staged_count_;
}

void CbTracker::Commit() {
  last_submission_.store(next_submission(), std::memory_order_relaxed);
  tail_.store(tail_.load(std::memory_order_relaxed) + staged_count_, std::memory_order_release);
  staged_count_ = 0;
}

void CbTracker::RollBack() { staged_count_ = 0; }

TrackedCb* CbTracker::Front() {
  const uint64_t head = head_.load(std::memory_order_relaxed);
  return head == tail_.load(std::memory_order_acquire) ? nullptr : &At(head);
}

TrackedCb* CbTracker::Behind(uint32_t places) const {
  const uint64_t position = head_.load(std::memory_order_relaxed) + places;
  return position >= tail_.load(std::memory_order_acquire) ? nullptr : &At(position);
}

void CbTracker::Pop() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }

void CbTracker::MarkSeen(uint64_t completed, uint64_t now_ns) {
  const uint64_t tail = tail_.load(std::memory_order_acquire);
  for (uint64_t at = head_.load(std::memory_order_relaxed); at != tail; ++at) {
    TrackedCb& cb = At(at);
    if (cb.submission > completed) return;
    if (cb.seen_ns == 0) cb.seen_ns = now_ns;
  }
}

TrackedCb* CbTracker::NextSlow(uint64_t now_ns) {
  const uint64_t tail = tail_.load(std::memory_order_acquire);
  for (uint64_t at = head_.load(std::memory_order_relaxed); at != tail; ++at) {
    TrackedCb& cb = At(at);
    // In order of commit: the rest is younger.
    if (cb.committed_ns + kSlowNs > now_ns) return nullptr;
    if (cb.warned) continue;
    cb.warned = true;
    return &cb;
  }
  return nullptr;
}

GpuSpan CbTracker::HostSpan(uint64_t committed_ns, uint64_t seen_ns) const {
  const uint64_t end = std::max(seen_ns, committed_ns);
  return {.start_ns = std::min(std::max(committed_ns, previous_end_ns_), end), .end_ns = end};
}

GpuSpan CbTracker::Complete(GpuSpan span) {
  span.start_ns = std::max(span.start_ns, previous_end_ns_);
  span.end_ns = std::max(span.end_ns, span.start_ns);
  previous_end_ns_ = span.end_ns;
  return span;
}

}  // namespace smeltr::hook
