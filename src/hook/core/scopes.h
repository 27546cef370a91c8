// The calling thread's stack of open scopes, whoever opened them (smeltr.h, sidecar, NVTX, labels of a
// queue), and the stamp that goes on every submission. Thread-local: no locks, no heap, at most
// kMaxDepth open scopes a thread (deeper ones are counted, balanced, and attributed to the deepest kept).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "event/event.h"

namespace smeltr::hook {

inline constexpr uint32_t kMaxDepth = 256;

struct ScopeStart {
  event::Text name;
  event::Text class_name{};
  event::ScopeOrigin origin = event::ScopeOrigin::kProgram;
  event::List<event::Attribute> fields{};
};

// Emits ModuleEntered; the new scope is the thread's innermost. ScopeId{} when the hook is not active.
event::ScopeId PushScope(const ScopeStart& start);
// Emits ModuleReturned for the innermost; nothing when none is open.
void PopScope();
// The innermost open scope of the calling thread; ScopeId{} for none.
event::ScopeId CurrentScope();
uint32_t CurrentDepth();

// A scope that is not on any thread's stack (a debug label inside a command buffer): emits the events
// only, the caller keeps the id. `parent` is the enclosing label or the thread's scope.
event::ScopeId EnterDetachedScope(const ScopeStart& start, event::ScopeId parent, uint32_t depth);
void LeaveDetachedScope(event::ScopeId scope);

void EmitMark(const event::Text& label, event::List<event::Attribute> fields);

}  // namespace smeltr::hook
