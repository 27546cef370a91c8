#include "analysis/overview.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "util/format.h"

namespace smeltr::analysis {
namespace {

using event::Envelope;

class Collector {
 public:
  explicit Collector(Overview& overview) : overview_(overview) {}

  template <typename... E>
  void Read(const EventSource& source) {
    (source.ForEach<E>([&](const Envelope& envelope, const E& fields) { On(envelope, fields); }), ...);
  }

  void Finish() {
    for (auto& [pid, process] : processes_) overview_.processes.push_back(std::move(process));
    for (auto& [key, error] : errors_) overview_.errors.push_back(std::move(error));
    std::sort(overview_.errors.begin(), overview_.errors.end(), [](const ErrorRow& a, const ErrorRow& b) {
      return std::tie(a.first_ts_ns, a.call, a.error_code) < std::tie(b.first_ts_ns, b.call, b.error_code);
    });
    std::vector<FailureRow>& failures = overview_.failures;
    std::sort(failures.begin(), failures.end(), [](const FailureRow& a, const FailureRow& b) {
      return std::tie(a.ts_ns, a.pid, a.text) < std::tie(b.ts_ns, b.pid, b.text);
    });
    if (failures.size() > kMaxOverviewRows) failures.resize(kMaxOverviewRows);
  }

 private:
  void On(const Envelope& envelope, const event::DeviceInfo& fields) {
    overview_.devices.push_back({envelope.pid, envelope.api, event::Raw(fields.device_id),
                                 std::string(fields.device_name.view), std::string(fields.driver.view),
                                 std::string(fields.api_version.view)});
  }
  void On(const Envelope& envelope, const event::QueueInfo& fields) {
    overview_.queues.push_back({envelope.pid, envelope.api, event::Raw(fields.queue_id),
                                event::Raw(fields.device_id), std::string(fields.label.view),
                                fields.timestamp_valid_bits});
  }
  void On(const Envelope& envelope, const event::ProcessSeen& fields) {
    ProcessRow& process = Process(envelope.pid);
    process.parent_pid = fields.parent_pid;
    // Told again when it has executed something else; a short one may leave but its name.
    uint64_t& told_ns = executable_told_ns_[envelope.pid];
    if (told_ns > envelope.ts_ns) return;
    told_ns = envelope.ts_ns;
    if (!fields.executable.empty()) {
      process.executable = fields.executable.view;
    } else if (process.executable.empty()) {
      process.executable = fields.process_name.view;
    }
  }
  void On(const Envelope& envelope, const event::ProcessExit& fields) {
    ProcessRow& process = Process(envelope.pid);
    process.exited = true;
    process.exit_code = fields.exit_code;
    process.term_signal = fields.term_signal;
  }
  void On(const Envelope& envelope, const event::ApiError& fields) {
    auto key = std::tuple(envelope.api, std::string(fields.call.view), fields.error_code);
    ErrorRow& row = errors_[std::move(key)];
    if (row.count == 0 || envelope.ts_ns < row.first_ts_ns) row.first_ts_ns = envelope.ts_ns;
    if (row.count++ > 0) return;
    row.api = envelope.api;
    row.call = fields.call.view;
    row.error_code = fields.error_code;
    row.error_name = fields.error_name.view;
  }
  void On(const Envelope& envelope, const event::CbCompleted& fields) {
    if (fields.status != event::CbStatus::kError) return;
    Fail(envelope, fmt::format("command buffer {} failed: {} {}", event::Raw(fields.cb_id),
                               fields.error_domain.view, fields.error_code));
  }
  void On(const Envelope& envelope, const event::GpuFault& fields) {
    Fail(envelope, fmt::format("GPU fault {}: {}", fields.code, fields.text.view));
  }
  void On(const Envelope& envelope, const event::SignalCaught& fields) {
    Fail(envelope,
         fmt::format("process {} caught {}", envelope.pid, SignalName(static_cast<int>(fields.signal))));
  }
  void On(const Envelope&, const event::HookSilent& fields) {
    overview_.silent_hooks.emplace_back(fields.reason.view);
  }

  ProcessRow& Process(uint32_t pid) {
    ProcessRow& process = processes_[pid];
    process.pid = pid;
    return process;
  }
  void Fail(const Envelope& envelope, std::string text) {
    ++overview_.failure_count;
    // Bounded, whatever the session: the earliest are looked for among twice as many as are kept.
    if (overview_.failures.size() < 2 * kMaxOverviewRows) {
      overview_.failures.push_back({envelope.ts_ns, envelope.pid, std::move(text)});
    }
  }

  Overview& overview_;
  std::map<uint32_t, ProcessRow> processes_;
  std::map<uint32_t, uint64_t> executable_told_ns_;
  std::map<std::tuple<event::Api, std::string, int64_t>, ErrorRow> errors_;
};

void ListInFlight(const Timeline& timeline, Overview& overview) {
  std::vector<uint32_t> open;
  for (uint32_t i = 0; i < timeline.cbs().size(); ++i) {
    if (timeline.cbs()[i].fate == CbFate::kInFlight) open.push_back(i);
  }
  const size_t shown = std::min(open.size(), kMaxOverviewRows);
  std::partial_sort(open.begin(), open.begin() + static_cast<std::ptrdiff_t>(shown), open.end(),
                    [&](uint32_t a, uint32_t b) {
                      const CommandBuffer& x = timeline.cbs()[a];
                      const CommandBuffer& y = timeline.cbs()[b];
                      return std::tie(x.commit_ns, x.queue, x.cb_id) <
                             std::tie(y.commit_ns, y.queue, y.cb_id);
                    });
  for (size_t i = 0; i < shown; ++i) {
    const CommandBuffer& cb = timeline.cbs()[open[i]];
    const Queue& queue = timeline.queues()[cb.queue];
    InFlightRow& row = overview.in_flight.emplace_back();
    row.pid = timeline.processes()[queue.process].pid;
    row.cb_id = cb.cb_id;
    row.queue_id = queue.queue_id;
    row.queue_label = timeline.texts()[queue.label];
    row.scope_path = ScopePath(timeline, cb.scope);
    row.commit_ns = cb.commit_ns;
    row.age_ns = timeline.range().end_ns > cb.commit_ns ? timeline.range().end_ns - cb.commit_ns : 0;
  }
}

}  // namespace

Overview ComputeOverview(const EventSource& source) {
  Overview overview;
  const Timeline timeline = Timeline::Build(source);
  overview.range = timeline.range();
  overview.cbs = timeline.counts();
  overview.loss = timeline.loss();
  ListInFlight(timeline, overview);
  Collector collector(overview);
  collector.Read<event::DeviceInfo, event::QueueInfo, event::ProcessSeen, event::ProcessExit, event::ApiError,
                 event::GpuFault, event::SignalCaught, event::HookSilent>(source);
  if (overview.cbs.failed > 0) collector.Read<event::CbCompleted>(source);
  collector.Finish();
  return overview;
}

std::string ScopePath(const Timeline& timeline, uint32_t scope) {
  // Bounded: parents of a damaged session may form a ring.
  std::vector<std::string_view> names;
  for (size_t i = 0; scope != kNone && i < 256; ++i) {
    if (timeline.scopes()[scope].entered)
      names.push_back(timeline.texts()[timeline.scopes()[scope].qualname]);
    scope = timeline.scopes()[scope].parent;
  }
  std::string path;
  for (auto name = names.rbegin(); name != names.rend(); ++name) {
    if (!path.empty()) path += '/';
    path += *name;
  }
  return path;
}

}  // namespace smeltr::analysis
