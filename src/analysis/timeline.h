// The session as the analysis sees it: processes, threads, scopes, evals, queues, and command buffers (CBs)
// joined by id with their GPU spans. Built in one pass over the events, in whatever order they come;
// everything else reads this. A few dozen bytes a CB or scope; texts are interned.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "analysis/event_source.h"
#include "analysis/tables.h"
#include "event/event.h"

namespace smeltr::analysis {

struct Process {
  uint32_t pid = 0;
};

struct Thread {
  uint32_t process = kNone;
  uint32_t tid = 0;  // 0 = not known.
};

// One call of a scope. A scope that was only referred to (as a parent, by a stamp, by a return) has a
// record too, with `entered` false.
struct Scope {
  uint64_t id = 0;
  uint64_t enter_ns = 0;
  uint64_t exit_ns = 0;  // The session's end when it never returned.
  uint32_t process = kNone;
  uint32_t thread = kNone;
  uint32_t parent = kNone;
  uint32_t qualname = 0;
  uint32_t class_name = 0;
  uint32_t fields = 0;  // DecodeFields(texts[fields])
  event::ScopeOrigin origin = event::ScopeOrigin::kProgram;
  bool entered = false;
  bool returned = false;
};

struct Eval {
  uint64_t enter_ns = 0;
  uint64_t exit_ns = 0;
  uint32_t thread = kNone;
  uint32_t scope = kNone;  // Innermost of its stack; kNone = evaluated outside every scope.
  bool entered = false;
  bool returned = false;
  bool was_async = false;
};

struct Queue {
  uint32_t process = kNone;
  uint64_t queue_id = 0;
  uint32_t label = 0;
  uint64_t gpu_ns = 0;          // Of its CBs, never overlapping.
  uint64_t first_start_ns = 0;  // The span they lie in.
  uint64_t last_end_ns = 0;
};

// What is known of the end of a CB.
enum class CbFate : uint8_t {
  kCompleted,  // It is in the session.
  kUntimed,    // A later submission of its queue found it complete; when is not in the session.
  kInFlight,   // As far as is known.
  kCutAway,    // It is older than what is whole of the session (EventSource::whole_from_ns).
};

struct CommandBuffer {
  uint64_t cb_id = 0;
  uint64_t commit_ns = 0;  // Worked out from in_flight_ns when the commit event is missing.
  uint64_t start_ns = 0;   // GPU span as recorded; for CBs without one, from commit to completion.
  uint64_t end_ns = 0;
  uint64_t gpu_ns = 0;  // The part of the span that no earlier CB of the queue covers.
  uint32_t queue = kNone;
  uint32_t scope = kNone;  // The stamp.
  uint32_t thread = kNone;
  bool committed = false;
  bool completed = false;
  CbFate fate = CbFate::kCompleted;
  event::CbStatus status = event::CbStatus::kCompleted;
  event::TimeSource time_source = event::TimeSource::kGpu;

  uint64_t span_ns() const { return end_ns - start_ns; }
};

// Losses and refusals the recorder told about.
struct Skip {
  event::Api api = event::Api::kNone;
  event::SkipReason reason = event::SkipReason::kOther;
  std::string detail;
  uint64_t count = 0;
};

struct CaptureLoss {
  uint64_t dropped_count = 0;       // Rings and sidecars were full.
  uint64_t storage_lost_count = 0;  // The disk would not take them.
  std::vector<Skip> skips;          // By reason, then api and detail.
};

struct CbCounts {
  uint64_t committed = 0;
  uint64_t completed = 0;
  // Committed, and their completion is not in the session, by fate.
  uint64_t incomplete = 0;  // In flight, as far as is known.
  uint64_t untimed = 0;
  uint64_t cut_away = 0;
  uint64_t failed = 0;
  uint64_t abandoned = 0;
  uint64_t commit_lost = 0;  // Completed, but the commit is not in the session.
  uint64_t without_time = 0;
  uint64_t host_timed = 0;
  uint64_t clipped = 0;  // Span overlapped an earlier one of its queue.
};

// Not for use by several threads at once: look-ups remember where they were.
class Timeline {
 public:
  static Timeline Build(const EventSource& source);

  TimeRange range() const { return range_; }
  const StringTable& texts() const { return texts_; }
  const std::vector<Process>& processes() const { return processes_; }
  const std::vector<Thread>& threads() const { return threads_; }
  const BlockVector<Scope>& scopes() const { return scopes_; }
  const std::vector<Eval>& evals() const { return evals_; }
  const std::vector<Queue>& queues() const { return queues_; }
  const BlockVector<CommandBuffer>& cbs() const { return cbs_; }
  const CbCounts& counts() const { return counts_; }
  const CaptureLoss& loss() const { return loss_; }
  bool has_sidecar() const { return has_sidecar_; }

  // Dense numbers of what an event refers to; kNone when the session never had it.
  uint32_t FindCb(uint32_t pid, event::CbId cb) const;
  uint32_t FindScope(uint32_t pid, event::ScopeId scope) const;

 private:
  friend class TimelineBuilder;
  friend class FateFinder;

  TimeRange range_;
  StringTable texts_;
  std::vector<Process> processes_;
  std::vector<Thread> threads_;
  BlockVector<Scope> scopes_;
  std::vector<Eval> evals_;
  std::vector<Queue> queues_;
  BlockVector<CommandBuffer> cbs_;
  CbCounts counts_;
  CaptureLoss loss_;
  bool has_sidecar_ = false;

  KeyIndex process_of_pid_;
  KeyIndex thread_of_key_;
  SerialIndex cb_index_;
  SerialIndex scope_index_;
  SerialIndex queue_index_;
  SerialIndex eval_index_;
};

// User fields of a scope, ordered by key, as one text that is equal when they are equal.
std::string EncodeFields(event::List<event::Attribute> fields);

struct Field {
  std::string key;
  event::AttributeType type = event::AttributeType::kString;
  uint64_t bits = 0;  // Bool, int64 or double.
  std::string text;

  friend bool operator==(const Field&, const Field&) = default;
};
std::vector<Field> DecodeFields(std::string_view encoded);

}  // namespace smeltr::analysis
