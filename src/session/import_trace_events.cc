#include "session/import_trace_events.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "util/format.h"
#include "util/paths.h"

namespace smeltr::session {
namespace {

constexpr size_t kMaxRemembered = size_t{1} << 14;  // Completions of a queue, for its depth.
constexpr size_t kMaxSeenPids = size_t{1} << 12;
constexpr size_t kMaxDevices = size_t{1} << 12;
constexpr uint64_t kNoEnd = ~uint64_t{0};

event::CbType CbTypeOf(event::OpType op, bool graph) {
  if (graph) return event::CbType::kGraph;
  if (op == event::OpType::kCopy) return event::CbType::kCopy;
  return op == event::OpType::kFill ? event::CbType::kFill : event::CbType::kLaunch;
}

// JAX's GPU events have no category; what they do stands in their names.
event::OpType OpOfName(std::string_view name) {
  if (name.starts_with("Memcpy")) return event::OpType::kCopy;
  return name.starts_with("Memset") ? event::OpType::kFill : event::OpType::kDispatch;
}

}  // namespace

void TraceEvents::Append(uint64_t ts_ns, const Lane& lane, event::Api api, const event::Payload& payload) {
  if (seen_pids_.size() < kMaxSeenPids) seen_pids_.try_emplace(lane.first, ts_ns);
  last_ns_ = std::max(last_ns_, ts_ns);
  writer_.Append({{.ts_ns = ts_ns, .seq = 0, .pid = lane.first, .tid = lane.second, .api = api}, payload});
}

void TraceEvents::Add(const TraceRecord& record) {
  const TraceNumbers& numbers = record.numbers;
  const uint64_t begin_ns = At(numbers.ts_ns);
  switch (numbers.type) {
    case TraceType::kScope:
      return Enter(record, At(numbers.ts_ns + numbers.duration_ns));
    case TraceType::kScopeBegin:
      return Enter(record, kNoEnd);
    case TraceType::kScopeEnd:
      return Leave(record);
    case TraceType::kLaunch:
      return OnLaunch(record);
    case TraceType::kDevice:
      return OnDevice(record);
    case TraceType::kUntyped: {
      const auto gpu = facts_.GpuOf(numbers.pid);
      if (!gpu) {
        return numbers.correlation != 0 ? OnLaunch(record)
                                        : Enter(record, At(numbers.ts_ns + numbers.duration_ns));
      }
      // Beside its streams, a device has lanes that say the same in other words.
      const auto lane = facts_.thread_names.find({numbers.pid, numbers.tid});
      if (lane == facts_.thread_names.end() || !lane->second.starts_with("Stream")) {
        ++not_kept_count_;
        return;
      }
      TraceRecord work = record;
      work.numbers.device = *gpu;
      work.numbers.op = OpOfName(record.name);
      return OnDevice(work);
    }
    case TraceType::kMemory:
      return OnMemory(record);
    case TraceType::kMark:
      return Append(begin_ns, {numbers.pid, numbers.tid}, event::Api::kNone,
                    event::Mark{.label = record.name, .fields = record.attributes});
  }
}

// --- scopes ---

void TraceEvents::Return(const Lane& lane, const OpenScope& scope) {
  --open_count_;
  const uint64_t end_ns = scope.end_ns == kNoEnd ? last_ns_ : scope.end_ns;
  Append(end_ns, lane, event::Api::kNone, event::ModuleReturned{.module_call_id = scope.id});
}

std::vector<TraceEvents::OpenScope>& TraceEvents::OpenAt(const Lane& lane, uint64_t ts_ns) {
  std::vector<OpenScope>& open = open_[lane];
  while (!open.empty() && open.back().end_ns <= ts_ns) {
    Return(lane, open.back());
    open.pop_back();
  }
  return open;
}

event::ScopeId TraceEvents::Innermost(const TraceNumbers& numbers) {
  const std::vector<OpenScope>& open = OpenAt({numbers.pid, numbers.tid}, At(numbers.ts_ns));
  return open.empty() ? event::ScopeId{} : open.back().id;
}

void TraceEvents::Enter(const TraceRecord& record, uint64_t end_ns) {
  const Lane lane{record.numbers.pid, record.numbers.tid};
  const uint64_t begin_ns = At(record.numbers.ts_ns);
  if (open_count_ >= kMaxOpen || (open_.size() >= kMaxOpen && !open_.contains(lane))) {
    ++not_kept_count_;
    return;
  }
  std::vector<OpenScope>& open = OpenAt(lane, begin_ns);
  const bool python = record.numbers.scope == TraceScope::kPython || record.label == "nn.Module";
  const event::ModuleEntered entered{
      .module_call_id = event::ScopeId{++last_id_},
      .module_def_id = 0,
      .qualname = record.name,
      .class_name = record.label,
      .parent_call_id = open.empty() ? event::ScopeId{} : open.back().id,
      .depth = static_cast<uint32_t>(open.size()),
      .origin = python ? event::ScopeOrigin::kPython : event::ScopeOrigin::kProgram,
      .fields = record.attributes};
  Append(begin_ns, lane, event::Api::kNone, entered);
  open.push_back({entered.module_call_id, end_ns, std::hash<std::string_view>()(record.name)});
  ++open_count_;
}

void TraceEvents::Leave(const TraceRecord& record) {
  const Lane lane{record.numbers.pid, record.numbers.tid};
  const uint64_t ts_ns = At(record.numbers.ts_ns);
  const auto found = open_.find(lane);
  if (found == open_.end()) return;
  std::vector<OpenScope>& open = OpenAt(lane, ts_ns);
  // The innermost of that name; an end may leave the name out.
  const size_t name_hash = std::hash<std::string_view>()(record.name);
  for (size_t i = open.size(); i-- > 0;) {
    if (open[i].end_ns != kNoEnd || (!record.name.empty() && open[i].name_hash != name_hash)) continue;
    open[i].end_ns = ts_ns;
    Return(lane, open[i]);
    open.erase(open.begin() + static_cast<ptrdiff_t>(i));
    return;
  }
}

// --- GPU work ---

void TraceEvents::OnLaunch(const TraceRecord& record) {
  const TraceNumbers& numbers = record.numbers;
  const Lane lane{numbers.pid, numbers.tid};
  const uint64_t begin_ns = At(numbers.ts_ns);
  const auto duration_ns = static_cast<uint64_t>(numbers.duration_ns);
  const Launch launch{.ts_ns = begin_ns,
                      .pid = numbers.pid,
                      .tid = numbers.tid,
                      .scope_id = Innermost(numbers),
                      .graph = record.name.find("GraphLaunch") != std::string_view::npos,
                      .serial = ++launch_serial_};
  if (record.name.find("Synchronize") != std::string_view::npos && duration_ns > kLongWaitNs) {
    Append(begin_ns + duration_ns, lane, event::Api::kCuda,
           event::HostWait{.call = record.name, .duration_ns = duration_ns});
  }
  if (numbers.correlation == 0) return;
  launches_[numbers.correlation] = launch;
  launch_order_.emplace_back(numbers.correlation, launch.serial);
  while (launch_order_.size() > kMaxLaunches) {
    const auto [correlation, serial] = launch_order_.front();
    const auto old = launches_.find(correlation);
    if (old != launches_.end() && old->second.serial == serial) launches_.erase(old);
    launch_order_.pop_front();
  }
  const auto [first, last] = waiting_.equal_range(numbers.correlation);
  for (auto work = first; work != last; ++work) {
    Complete(work->second.numbers, work->second.name, work->second.label, &launch);
  }
  waiting_.erase(first, last);
}

void TraceEvents::OnDevice(const TraceRecord& record) {
  const uint64_t correlation = record.numbers.correlation;
  const auto launch = launches_.find(correlation);
  if (launch != launches_.end()) {
    return Complete(record.numbers, record.name, record.label, &launch->second);
  }
  if (correlation != 0 && waiting_.size() < kMaxWaiting) {
    waiting_.emplace(correlation, Work{record.numbers, std::string(record.name), std::string(record.label)});
    return;
  }
  Complete(record.numbers, record.name, record.label, nullptr);
}

void TraceEvents::DescribeDevice(uint32_t pid, uint32_t device, uint64_t ts_ns) {
  const auto known = facts_.devices.find(device);
  const TraceDevice described = known == facts_.devices.end() ? TraceDevice{} : known->second;
  const std::string name = described.name.empty() ? fmt::format("GPU {}", device) : described.name;
  const std::array heaps{event::MemoryHeap{.size_bytes = described.total_bytes, .device_local = true}};
  event::DeviceInfo info{.device_id = event::DeviceId{uint64_t{device} + 1},
                         .device_name = std::string_view(name),
                         .driver = std::string_view(facts_.driver),
                         .vendor_id = 0,
                         .api_version = {},
                         .application = {},
                         .heaps = {}};
  if (described.total_bytes != 0) info.heaps = heaps;
  Append(ts_ns, {pid, 0}, event::Api::kCuda, info);
}

TraceEvents::Queue& TraceEvents::QueueFor(uint32_t pid, const TraceNumbers& numbers) {
  // A trace of many devices and streams is no trace: those beyond share one.
  const bool full = queues_.size() >= kMaxSeenPids;
  const std::array<uint64_t, 3> key =
      full ? std::array<uint64_t, 3>{} : std::array<uint64_t, 3>{pid, numbers.device, numbers.stream};
  const auto [found, is_new] = queues_.try_emplace(key);
  if (!is_new) return found->second;
  const uint64_t ts_ns = At(numbers.ts_ns);
  if (devices_.try_emplace({pid, numbers.device}).second) DescribeDevice(pid, numbers.device, ts_ns);
  found->second.id = event::QueueId{++last_id_};
  const std::string label = fmt::format("stream {}", numbers.stream);
  Append(ts_ns, {pid, 0}, event::Api::kCuda,
         event::QueueInfo{.queue_id = found->second.id,
                          .device_id = event::DeviceId{uint64_t{numbers.device} + 1},
                          .label = std::string_view(label),
                          .timestamp_valid_bits = 64});
  return found->second;
}

void TraceEvents::Complete(const TraceNumbers& numbers, std::string_view name, std::string_view label,
                           const Launch* launch) {
  const uint64_t start_ns = At(numbers.ts_ns);
  const uint64_t end_ns = At(numbers.ts_ns + numbers.duration_ns);
  uint32_t pid = facts_.host_pid;
  if (launch != nullptr) {
    pid = launch->pid;
    if (pid_of_device_.size() < kMaxDevices) pid_of_device_[numbers.device] = pid;
  } else if (const auto known = pid_of_device_.find(numbers.device); known != pid_of_device_.end()) {
    pid = known->second;
  }
  Queue& queue = QueueFor(pid, numbers);
  const event::CbId cb_id{++last_id_};
  uint64_t in_flight_ns = end_ns - start_ns;
  if (launch != nullptr) {
    // What was launched before and not done yet.
    while (!queue.ends_ns.empty() &&
           (queue.ends_ns.front() <= launch->ts_ns || queue.ends_ns.size() >= kMaxRemembered)) {
      queue.ends_ns.pop_front();
    }
    const auto depth = static_cast<uint32_t>(queue.ends_ns.size() + 1);
    queue.ends_ns.push_back(end_ns);
    in_flight_ns = end_ns - std::min({launch->ts_ns, start_ns, end_ns});
    Append(std::min(launch->ts_ns, start_ns), {launch->pid, launch->tid}, event::Api::kCuda,
           event::CbCommitted{.cb_id = cb_id,
                              .queue_id = queue.id,
                              .queue_depth = depth,
                              .scope_id = launch->scope_id,
                              .label = label,
                              .type = CbTypeOf(numbers.op, launch->graph),
                              .submission = numbers.correlation});
  } else {
    ++unlaunched_count_;
  }
  const event::Envelope envelope{.ts_ns = end_ns, .seq = 0, .pid = pid, .tid = 0, .api = event::Api::kCuda};
  Append(end_ns, {pid, 0}, event::Api::kCuda,
         event::CbCompleted{.cb_id = cb_id,
                            .queue_id = queue.id,
                            .status = event::CbStatus::kCompleted,
                            .error_code = 0,
                            .error_domain = {},
                            .in_flight_ns = in_flight_ns,
                            .gpu_start_ns = start_ns,
                            .gpu_end_ns = end_ns,
                            .time_source = event::TimeSource::kGpu});
  StoreOp(envelope, cb_id, numbers, name);
}

void TraceEvents::StoreOp(const event::Envelope& envelope, event::CbId cb_id, const TraceNumbers& numbers,
                          std::string_view name) {
  const auto& [x, y, z] = numbers.grid;
  const std::string id = fmt::format("K_{}_{}x{}x{}", HashText(name).substr(0, 8), x, y, z);
  const std::array ops{event::OpSample{.name = std::string_view(id),
                                       .symbol = name,
                                       .type = numbers.op,
                                       .gpu_ns = static_cast<uint64_t>(numbers.duration_ns),
                                       .count = 1,
                                       .scope_id = {},
                                       .precision = event::Precision::kOp,
                                       .local_x = numbers.block[0],
                                       .local_y = numbers.block[1],
                                       .local_z = numbers.block[2]}};
  Append(envelope.ts_ns, {envelope.pid, 0}, envelope.api, event::CbOps{.cb_id = cb_id, .ops = ops});
}

// --- memory ---

void TraceEvents::OnMemory(const TraceRecord& record) {
  const TraceNumbers& numbers = record.numbers;
  const Lane lane{numbers.pid, numbers.tid};
  const uint64_t ts_ns = At(numbers.ts_ns);
  const std::pair<uint32_t, uint64_t> key{numbers.device, numbers.address};
  if (devices_.size() >= kMaxDevices && !devices_.contains({numbers.pid, numbers.device})) {
    ++not_kept_count_;
    return;
  }
  if (numbers.bytes > 0 && (buffers_.size() < kMaxOpen || buffers_.contains(key))) {
    const event::BufferId id{++last_id_};
    buffers_[key] = id;
    Append(ts_ns, lane, event::Api::kCuda,
           event::BufferAlloc{.buffer_id = id,
                              .heap_id = {},
                              .size_bytes = static_cast<uint64_t>(numbers.bytes),
                              .label = {},
                              .scope_id = Innermost(numbers)});
  } else if (const auto buffer = buffers_.find(key); buffer != buffers_.end()) {
    Append(ts_ns, lane, event::Api::kCuda, event::BufferFree{.buffer_id = buffer->second});
    buffers_.erase(buffer);
  }
  const auto [device, is_new] = devices_.try_emplace({numbers.pid, numbers.device});
  if (is_new) DescribeDevice(numbers.pid, numbers.device, ts_ns);
  int64_t& allocated = device->second.allocated_bytes;
  constexpr int64_t kMost = int64_t{1} << 60;
  allocated = std::clamp(allocated + std::clamp(numbers.bytes, -kMost, kMost), int64_t{0}, kMost);
  const bool told = numbers.total_bytes >= 0;
  if (told) allocated = std::min(numbers.total_bytes, kMost);
  const auto known = facts_.devices.find(numbers.device);
  Append(ts_ns, lane, event::Api::kCuda,
         event::DeviceMemSample{
             .allocated_bytes = static_cast<uint64_t>(allocated),
             .recommended_max_bytes = known == facts_.devices.end() ? 0 : known->second.total_bytes,
             .at_event = event::MemSampleAt::kAllocation,
             .device_id = event::DeviceId{uint64_t{numbers.device} + 1},
             .own_accounting = !told});
}

// --- the end ---

void TraceEvents::Finish(ImportNotes& notes) {
  for (const auto& [correlation, work] : waiting_) Complete(work.numbers, work.name, work.label, nullptr);
  waiting_.clear();
  for (auto& [lane, open] : open_) {
    for (; !open.empty(); open.pop_back()) Return(lane, open.back());
  }
  const std::map<uint32_t, uint64_t> pids = std::move(seen_pids_);
  seen_pids_.clear();
  for (const auto& [pid, first_ns] : pids) {
    const auto name = facts_.process_names.find(pid);
    if (pid == 0 || name == facts_.process_names.end() || name->second.empty()) continue;
    const std::string_view executable = name->second;
    Append(first_ns, {pid, 0}, event::Api::kNone,
           event::ProcessSeen{
               .parent_pid = 0, .start_time_ticks = 0, .executable = executable, .process_name = executable});
  }
  if (unlaunched_count_ > 0) {
    notes.Add(
        fmt::format("{} without a launch in the trace: no scope is known for them",
                    FormatCounted(unlaunched_count_, "kernel, copy or fill", "kernels, copies and fills")));
  }
  if (not_kept_count_ > 0) {
    notes.Add(fmt::format("{} left out: second views of GPU work, or too many at once",
                          FormatCounted(not_kept_count_, "event")));
  }
}

}  // namespace smeltr::session
