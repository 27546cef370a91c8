#include "analysis/timeline.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "analysis/fates.h"
#include "base/bytes.h"

namespace smeltr::analysis {

using event::Envelope;

class TimelineBuilder {
 public:
  explicit TimelineBuilder(Timeline& timeline) : t_(timeline) {}

  template <typename... E>
  void Read(const EventSource& source) {
    (source.ForEach<E>([&](const Envelope& envelope, const E& fields) { On(envelope, fields); }), ...);
  }

  void Finish() {
    CloseScopes();
    CloseEvals();
    CountCbs();
    ClipSpans();
    SumSkips();
  }

 private:
  // --- scopes and evals ---
  void On(const Envelope& envelope, const event::ModuleEntered& fields) {
    const uint32_t process = ProcessOf(envelope.pid);
    Scope& scope = t_.scopes_[ScopeOf(process, fields.module_call_id)];
    if (scope.entered) return;
    scope.entered = true;
    scope.enter_ns = envelope.ts_ns;
    scope.thread = ThreadOf(process, envelope.tid);
    scope.qualname = t_.texts_.Intern(fields.qualname.view);
    scope.class_name = t_.texts_.Intern(fields.class_name.view);
    scope.origin = fields.origin;
    if (!fields.fields.empty()) scope.fields = t_.texts_.Intern(EncodeFields(fields.fields));
    if (fields.parent_call_id != event::ScopeId{}) scope.parent = ScopeOf(process, fields.parent_call_id);
  }

  void On(const Envelope& envelope, const event::ModuleReturned& fields) {
    Scope& scope = t_.scopes_[ScopeOf(ProcessOf(envelope.pid), fields.module_call_id)];
    if (scope.returned) return;
    scope.returned = true;
    scope.exit_ns = envelope.ts_ns;
  }

  void On(const Envelope& envelope, const event::MlxEvalEntered& fields) {
    const uint32_t process = ProcessOf(envelope.pid);
    Eval& eval = EvalOf(process, fields.call_id);
    eval.entered = true;
    eval.enter_ns = envelope.ts_ns;
    eval.thread = ThreadOf(process, envelope.tid);
    if (!fields.module_stack.empty())
      eval.scope = ScopeOf(process, event::ScopeId{fields.module_stack.back()});
    t_.has_sidecar_ = true;
  }

  void On(const Envelope& envelope, const event::MlxEvalReturned& fields) {
    Eval& eval = EvalOf(ProcessOf(envelope.pid), fields.call_id);
    eval.returned = true;
    eval.exit_ns = envelope.ts_ns;
    eval.was_async = fields.was_async;
  }

  void On(const Envelope&, const event::PythonSidecarHello&) { t_.has_sidecar_ = true; }

  // --- queues and command buffers ---
  void On(const Envelope& envelope, const event::QueueInfo& fields) {
    Queue& queue = t_.queues_[QueueOf(ProcessOf(envelope.pid), fields.queue_id)];
    queue.label = t_.texts_.Intern(fields.label.view);
  }

  void On(const Envelope& envelope, const event::CbCommitted& fields) {
    const uint32_t process = ProcessOf(envelope.pid);
    CommandBuffer& cb = CbOf(process, fields.cb_id);
    if (cb.committed) return;
    cb.committed = true;
    cb.commit_ns = envelope.ts_ns;
    cb.queue = QueueOf(process, fields.queue_id);
    cb.thread = ThreadOf(process, envelope.tid);
    if (fields.scope_id != event::ScopeId{}) cb.scope = ScopeOf(process, fields.scope_id);
  }

  void On(const Envelope& envelope, const event::CbCompleted& fields) {
    const uint32_t process = ProcessOf(envelope.pid);
    CommandBuffer& cb = CbOf(process, fields.cb_id);
    if (cb.completed) return;
    cb.completed = true;
    cb.queue = QueueOf(process, fields.queue_id);
    cb.status = fields.status;
    if (fields.gpu_end_ns != 0 && fields.gpu_start_ns <= fields.gpu_end_ns) {
      cb.start_ns = fields.gpu_start_ns;
      cb.end_ns = fields.gpu_end_ns;
      cb.time_source = fields.time_source;
      return;
    }
    cb.time_source = event::TimeSource::kHost;
    cb.end_ns = envelope.ts_ns;
    cb.start_ns = envelope.ts_ns - std::min(fields.in_flight_ns, envelope.ts_ns);
  }

  // --- losses ---
  void On(const Envelope&, const event::HookDropped& fields) { t_.loss_.dropped_count += fields.count; }
  void On(const Envelope&, const event::SidecarDropped& fields) { t_.loss_.dropped_count += fields.count; }
  void On(const Envelope&, const event::SessionResumed& fields) {
    t_.loss_.dropped_count += fields.dropped_count;
  }
  void On(const Envelope&, const event::StorageDegraded& fields) {
    t_.loss_.storage_lost_count += fields.lost_count;
  }
  void On(const Envelope& envelope, const event::HookSkipped& fields) {
    // A running count: the largest is the total of its process.
    auto key = std::tuple(fields.reason, envelope.api, std::string(fields.detail.view), envelope.pid);
    uint64_t& count = skips_[std::move(key)];
    count = std::max(count, fields.count);
  }

  // --- dense numbers ---
  uint32_t ProcessOf(uint32_t pid) {
    if (last_process_ != kNone && t_.processes_[last_process_].pid == pid) return last_process_;
    uint32_t& number = t_.process_of_pid_[pid];
    if (number == kNone) {
      number = static_cast<uint32_t>(t_.processes_.size());
      t_.processes_.push_back({pid});
    }
    return last_process_ = number;
  }

  uint32_t ThreadOf(uint32_t process, uint32_t tid) {
    uint32_t& number = t_.thread_of_key_[static_cast<uint64_t>(process) << 32 | tid];
    if (number == kNone) {
      number = static_cast<uint32_t>(t_.threads_.size());
      t_.threads_.push_back({process, tid});
    }
    return number;
  }

  uint32_t ScopeOf(uint32_t process, event::ScopeId id) {
    uint32_t& number = t_.scope_index_.At(process, event::Raw(id));
    if (number == kNone) {
      number = static_cast<uint32_t>(t_.scopes_.size());
      Scope& scope = t_.scopes_.Append();
      scope.id = event::Raw(id);
      scope.process = process;
    }
    return number;
  }

  uint32_t QueueOf(uint32_t process, event::QueueId id) {
    uint32_t& number = t_.queue_index_.At(process, event::Raw(id));
    if (number == kNone) {
      number = static_cast<uint32_t>(t_.queues_.size());
      t_.queues_.push_back({});
      t_.queues_.back().process = process;
      t_.queues_.back().queue_id = event::Raw(id);
    }
    return number;
  }

  CommandBuffer& CbOf(uint32_t process, event::CbId id) {
    uint32_t& number = t_.cb_index_.At(process, event::Raw(id));
    if (number != kNone) return t_.cbs_[number];
    number = static_cast<uint32_t>(t_.cbs_.size());
    CommandBuffer& cb = t_.cbs_.Append();
    cb.cb_id = event::Raw(id);
    return cb;
  }

  Eval& EvalOf(uint32_t process, uint64_t call_id) {
    uint32_t& number = t_.eval_index_.At(process, call_id);
    if (number == kNone) {
      number = static_cast<uint32_t>(t_.evals_.size());
      t_.evals_.push_back({});
    }
    return t_.evals_[number];
  }

  // --- after the pass ---
  void CloseScopes() {
    for (size_t i = 0; i < t_.scopes_.size(); ++i) {
      Scope& scope = t_.scopes_[i];
      if (scope.entered && !scope.returned) scope.exit_ns = std::max(t_.range_.end_ns, scope.enter_ns);
    }
  }

  // An eval without its return has no window.
  void CloseEvals() {
    std::erase_if(t_.evals_, [](const Eval& eval) { return !eval.entered || !eval.returned; });
    for (Eval& eval : t_.evals_) {
      if (eval.scope != kNone && !t_.scopes_[eval.scope].entered) eval.scope = kNone;
    }
  }

  void CountCbs() {
    CbCounts& counts = t_.counts_;
    for (size_t i = 0; i < t_.cbs_.size(); ++i) {
      CommandBuffer& cb = t_.cbs_[i];
      if (cb.committed) ++counts.committed;
      if (!cb.completed) {
        cb.fate = CbFate::kInFlight;
        ++counts.incomplete;
        continue;
      }
      ++counts.completed;
      if (cb.status == event::CbStatus::kError) ++counts.failed;
      if (cb.status == event::CbStatus::kAbandoned) {
        ++counts.abandoned;
        cb.start_ns = cb.end_ns;  // It never ran, whatever its record says.
      }
      if (!cb.committed) {
        ++counts.commit_lost;
        cb.commit_ns = cb.start_ns;
      }
      if (cb.time_source == event::TimeSource::kHost) ++counts.host_timed;
    }
  }

  // Work of one queue that overlaps on the GPU is counted once, for the CB that began first: otherwise
  // the queue would show more GPU time than has passed.
  void ClipSpans() {
    std::vector<std::vector<uint32_t>> by_queue(t_.queues_.size());
    for (uint32_t i = 0; i < t_.cbs_.size(); ++i) {
      if (t_.cbs_[i].completed) by_queue[t_.cbs_[i].queue].push_back(i);
    }
    const auto earlier = [&](uint32_t a, uint32_t b) {
      const CommandBuffer& x = t_.cbs_[a];
      const CommandBuffer& y = t_.cbs_[b];
      return std::tie(x.start_ns, x.end_ns, x.cb_id) < std::tie(y.start_ns, y.end_ns, y.cb_id);
    };
    for (size_t q = 0; q < by_queue.size(); ++q) {
      std::vector<uint32_t>& members = by_queue[q];
      if (!std::is_sorted(members.begin(), members.end(), earlier))
        std::sort(members.begin(), members.end(), earlier);
      ClipQueue(t_.queues_[q], members);
      std::vector<uint32_t>().swap(members);
    }
  }

  void ClipQueue(Queue& queue, std::span<const uint32_t> members) {
    if (!members.empty()) queue.first_start_ns = t_.cbs_[members.front()].start_ns;
    queue.last_end_ns = queue.first_start_ns;
    for (const uint32_t i : members) {
      CommandBuffer& cb = t_.cbs_[i];
      const uint64_t start = std::max(cb.start_ns, queue.last_end_ns);
      cb.gpu_ns = cb.end_ns > start ? cb.end_ns - start : 0;
      if (cb.gpu_ns != cb.span_ns()) ++t_.counts_.clipped;
      if (cb.gpu_ns == 0) ++t_.counts_.without_time;
      queue.last_end_ns = std::max(queue.last_end_ns, cb.end_ns);
      queue.gpu_ns += cb.gpu_ns;
    }
  }

  void SumSkips() {
    for (const auto& [key, count] : skips_) {
      const auto& [reason, api, detail, pid] = key;
      std::vector<Skip>& skips = t_.loss_.skips;
      const bool same = !skips.empty() && skips.back().reason == reason && skips.back().api == api &&
                        skips.back().detail == detail;
      if (!same) skips.push_back({api, reason, detail, 0});
      skips.back().count += count;
    }
  }

  Timeline& t_;
  uint32_t last_process_ = kNone;
  std::map<std::tuple<event::SkipReason, event::Api, std::string, uint32_t>, uint64_t> skips_;
};

Timeline Timeline::Build(const EventSource& source) {
  Timeline timeline;
  timeline.range_ = source.range();
  TimelineBuilder builder(timeline);
  builder.Read<event::QueueInfo, event::ModuleEntered, event::ModuleReturned, event::MlxEvalEntered,
               event::MlxEvalReturned, event::PythonSidecarHello, event::CbCommitted, event::CbCompleted,
               event::HookDropped, event::HookSkipped, event::SidecarDropped, event::SessionResumed,
               event::StorageDegraded>(source);
  builder.Finish();
  FateFinder(timeline).Run(source);
  return timeline;
}

uint32_t Timeline::FindCb(uint32_t pid, event::CbId cb) const {
  const uint32_t process = process_of_pid_.Lookup(pid);
  return process == kNone ? kNone : cb_index_.Lookup(process, event::Raw(cb));
}

uint32_t Timeline::FindScope(uint32_t pid, event::ScopeId scope) const {
  const uint32_t process = process_of_pid_.Lookup(pid);
  return process == kNone ? kNone : scope_index_.Lookup(process, event::Raw(scope));
}

}  // namespace smeltr::analysis
