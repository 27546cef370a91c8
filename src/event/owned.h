// An event that owns its texts and lists: its frame, and the envelope beside it. For queues between threads
// and for the wire; uses the heap, so not for hooks.
//
// As bytes: u64 seq, u32 pid, u32 tid, then one frame (event/frame.h) with all texts inline.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/result.h"
#include "event/event.h"
#include "event/frame.h"

namespace smeltr::event {

// Appends `event` to `out`; false, with `out` as it was, when it is larger than kMaxOwnedBytes. An Opaque
// event keeps its kind and bytes.
bool AppendOwned(const Event& event, std::vector<std::byte>& out);
inline constexpr size_t kMaxOwnedBytes = size_t{256} << 10;

// Reads the next one off the front of `bytes`. The result points into `bytes` and `arena`. kCorrupt, with
// `bytes` unchanged, for anything that is not one whole event.
Result<Event> TakeOwned(std::span<const std::byte>& bytes, DecodeArena& arena);

}  // namespace smeltr::event
