// Debug labels as scopes: of queues at submission, of command buffers at recording.
#pragma once

#include "hook/vulkan/recording.h"

namespace smeltr::hook::vulkan {

// Of two scopes the one opened later encloses less: ids of one thread rise.
inline event::ScopeId Innermost(event::ScopeId a, event::ScopeId b) {
  return event::Raw(a) > event::Raw(b) ? a : b;
}

// The innermost scope of work submitted to `queue` by this thread now.
event::ScopeId SubmissionScope(const Queue& queue);
// `recording` is being submitted: labels it closes or leaves open pass from one command buffer to the next.
void PassLabelsOn(Queue& queue, Recording& recording);

}  // namespace smeltr::hook::vulkan
