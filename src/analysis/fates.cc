#include "analysis/fates.h"

#include <algorithm>
#include <tuple>

namespace smeltr::analysis {
namespace {

// No hook keeps more in flight on a queue; of a hostile session no more is believed.
constexpr size_t kMaxDepth = 8192;

}  // namespace

void FateFinder::Run(const EventSource& source) {
  CbCounts& counts = t_.counts_;
  if (counts.incomplete == 0) return;
  queues_.resize(t_.queues_.size());
  for (size_t i = 0; i < t_.cbs_.size(); ++i) {
    const CommandBuffer& cb = t_.cbs_[i];
    if (cb.fate == CbFate::kInFlight) queues_[cb.queue].wanted = true;
  }
  source.ForEach<event::CbCommitted>([&](const event::Envelope& envelope, const event::CbCommitted& fields) {
    const uint32_t process = t_.process_of_pid_.Lookup(envelope.pid);
    const uint32_t queue = t_.queue_index_.Lookup(process, event::Raw(fields.queue_id));
    if (queue == kNone || !queues_[queue].wanted) return;
    // Without a number each is a submission of its own.
    const uint64_t id = fields.submission != 0 ? fields.submission : event::Raw(fields.cb_id);
    Note(queues_[queue], {.commit_ns = envelope.ts_ns, .id = id, .depth = fields.queue_depth});
  });
  for (QueueEnd& queue : queues_) {
    if (queue.newest.empty()) continue;
    KeepNewest(queue.newest);
    const size_t depth = queue.newest.front().depth;
    if (depth == 0 || depth > queue.newest.size()) continue;  // Not told; or all may be.
    queue.in_flight_from_ns = queue.newest[depth - 1].commit_ns;
  }
  for (size_t i = 0; i < t_.cbs_.size(); ++i) {
    CommandBuffer& cb = t_.cbs_[i];
    if (cb.fate != CbFate::kInFlight) continue;
    const bool complete = cb.commit_ns < queues_[cb.queue].in_flight_from_ns;
    if (!complete && cb.commit_ns >= source.whole_from_ns()) continue;
    cb.fate = complete ? CbFate::kUntimed : CbFate::kCutAway;
    ++(complete ? counts.untimed : counts.cut_away);
    --counts.incomplete;
  }
}

void FateFinder::Note(QueueEnd& queue, const Submission& submission) {
  queue.newest.push_back(submission);
  if (queue.newest.size() >= 4 * kMaxDepth) KeepNewest(queue.newest);
}

// Newest first, each submission once.
void FateFinder::KeepNewest(std::vector<Submission>& submissions) {
  std::ranges::sort(submissions, [](const Submission& a, const Submission& b) {
    return std::tie(a.commit_ns, a.id) > std::tie(b.commit_ns, b.id);
  });
  const auto repeated = std::ranges::unique(submissions, {}, &Submission::id);
  submissions.erase(repeated.begin(), repeated.end());
  if (submissions.size() > kMaxDepth) submissions.resize(kMaxDepth);
}

}  // namespace smeltr::analysis
