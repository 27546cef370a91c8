#include "hook/core/scopes.h"

#include <pthread.h>
#include <sys/mman.h>

#include <algorithm>
#include <array>

#include "hook/core/runtime.h"

namespace smeltr::hook {
namespace {

// Too large for the little thread-local room a library gets without a call for each access, so it is
// mapped at the thread's first scope and unmapped at its end.
struct Stack {
  uint32_t generation;  // Of the ring that the scopes were opened in.
  uint32_t depth;       // May exceed kMaxDepth; the scopes beyond it are only counted.
  std::array<event::ScopeId, kMaxDepth> scopes;
};

constinit thread_local Stack* t_stack = nullptr;

pthread_key_t g_thread_end_key;
bool g_has_thread_end_key = false;
pthread_once_t g_thread_end_once = PTHREAD_ONCE_INIT;

void OnThreadEnd(void* stack) {
  t_stack = nullptr;
  ::munmap(stack, sizeof(Stack));
}

void MakeThreadEndKey() { g_has_thread_end_key = pthread_key_create(&g_thread_end_key, OnThreadEnd) == 0; }

// nullptr when the system gives no memory: the thread then has no scopes.
Stack* NewStack() {
  pthread_once(&g_thread_end_once, MakeThreadEndKey);
  if (!g_has_thread_end_key) return nullptr;
  void* memory = ::mmap(nullptr, sizeof(Stack), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  if (pthread_setspecific(g_thread_end_key, memory) != 0) {
    ::munmap(memory, sizeof(Stack));
    return nullptr;
  }
  return static_cast<Stack*>(memory);
}

// The thread's stack; one of the parent's, after a fork, is emptied: its scopes mean nothing here.
Stack* CurrentStack() {
  Stack* stack = t_stack;
  if (stack != nullptr && stack->generation != Generation()) {
    stack->generation = Generation();
    stack->depth = 0;
  }
  return stack;
}

event::ScopeId Innermost(const Stack& stack) {
  const uint32_t kept = std::min(stack.depth, kMaxDepth);
  return kept > 0 ? stack.scopes[kept - 1] : event::ScopeId{};
}

}  // namespace

event::ScopeId PushScope(const ScopeStart& start) {
  if (!Active()) return {};
  if (t_stack == nullptr) t_stack = NewStack();
  Stack* stack = CurrentStack();
  if (stack == nullptr) return {};
  if (stack->depth >= kMaxDepth) {
    ++stack->depth;
    Skip(event::Api::kNone, event::SkipReason::kTableFull, "scopes nested too deeply");
    return Innermost(*stack);
  }
  const event::ScopeId scope = EnterDetachedScope(start, Innermost(*stack), stack->depth);
  stack->scopes[stack->depth++] = scope;
  return scope;
}

void PopScope() {
  Stack* stack = CurrentStack();
  if (stack == nullptr || stack->depth == 0) return;
  if (stack->depth <= kMaxDepth) LeaveDetachedScope(Innermost(*stack));
  --stack->depth;
}

event::ScopeId CurrentScope() {
  const Stack* stack = CurrentStack();
  return stack != nullptr && Active() ? Innermost(*stack) : event::ScopeId{};
}

uint32_t CurrentDepth() {
  const Stack* stack = CurrentStack();
  return stack != nullptr && Active() ? std::min(stack->depth, kMaxDepth) : 0;
}

event::ScopeId EnterDetachedScope(const ScopeStart& start, event::ScopeId parent, uint32_t depth) {
  if (!Active()) return {};
  const event::ScopeId scope{NextId()};
  Writer().Write(event::Api::kNone, event::ModuleEntered{.module_call_id = scope,
                                                         .module_def_id = 0,
                                                         .qualname = start.name,
                                                         .class_name = start.class_name,
                                                         .parent_call_id = parent,
                                                         .depth = depth,
                                                         .origin = start.origin,
                                                         .fields = start.fields});
  return scope;
}

void LeaveDetachedScope(event::ScopeId scope) {
  if (scope != event::ScopeId{}) Emit(event::Api::kNone, event::ModuleReturned{.module_call_id = scope});
}

void EmitMark(const event::Text& label, event::List<event::Attribute> fields) {
  Emit(event::Api::kNone, event::Mark{.label = label, .fields = fields});
}

}  // namespace smeltr::hook
