#include "daemon/recording.h"

#include <fmt/format.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <system_error>
#include <utility>

#include "event/names.h"
#include "util/file.h"
#include "util/format.h"
#include "util/process.h"

namespace smeltr::daemon {
namespace {

// Per ring and step: some milliseconds, so that no recording keeps others or requests waiting.
constexpr uint64_t kEventsPerStep = 20'000;
constexpr uint64_t kCheckPeriodNs = 100'000'000;
// Processes that die together with the recorded one get this long before it counts as outlived.
constexpr uint64_t kSettleNs = 200'000'000;
// Looking at all processes of a machine takes milliseconds.
constexpr uint64_t kLookAgainNs = 20'000'000;
// For the kernel log and crash reporters to tell of a death, before the session is closed.
constexpr uint64_t kLateReportsNs = 2 * kNsPerSecond;
// Of all open recordings together it must fit into a message, however it is escaped.
constexpr size_t kCommandLength = 200;
// For the record of a session whose daemon died to find the next daemon.
constexpr uint64_t kReconnectNs = 2 * kNsPerSecond;
constexpr uint64_t kFinishLimitNs = uint64_t{ipc::kFinishLimitMs} * 1'000'000;

probe::ProcessTree TreeOf(const session::Metadata& metadata) {
  probe::Recorded recorded;
  recorded.session_id = metadata.session_id;
  recorded.token = metadata.scope_token;
  recorded.root_pid = metadata.root_pid;
  recorded.root_start_time_ticks = metadata.root_start_time_ticks;
  return probe::ProcessTree(std::move(recorded));
}

// A death of which the kernel or a crash reporter may have something to say.
bool MayBeReported(std::optional<int> signal) {
  if (!signal.has_value()) return false;
  constexpr std::array kReported = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS, SIGKILL};
  return std::ranges::find(kReported, *signal) != kReported.end();
}

event::KindName DroppedName(event::Api api, event::Kind kind) {
  const event::KindInfo* info = event::FindKind(kind);
  return {info != nullptr && info->naming == event::Naming::kPerApi ? api : event::Api::kNone, kind};
}

}  // namespace

Result<Recording> Recording::Open(const std::filesystem::path& sessions_directory,
                                  const std::filesystem::path& ring_base, session::Metadata metadata,
                                  const LogContext& context, const LogOptions& options) {
  SMELTR_ASSIGN_OR_RETURN(SessionLog log,
                          SessionLog::Create(sessions_directory, std::move(metadata), context, options));
  RingDirectory rings(ring_base / log.metadata().session_id);
  if (const auto made = MakePrivateDirectory(rings.path()); !made.has_value()) {
    log.Discard();
    return std::unexpected(made.error());
  }
  return Recording(std::move(log), std::move(rings), probe::ProcessTree({}));
}

Recording Recording::Adopt(session::StoredSession session, std::filesystem::path ring_directory,
                           const LogContext& context, const LogOptions& options, uint64_t now_ns) {
  SessionLog log = SessionLog::Adopt(std::move(session), context, options);
  probe::ProcessTree tree = TreeOf(log.metadata());
  Recording recording(std::move(log), RingDirectory(std::move(ring_directory)), std::move(tree));
  const session::Metadata& metadata = recording.metadata();
  recording.client_lost_ = true;
  // Its end was told to an earlier daemon: only others of it may still run.
  recording.root_ended_ = metadata.exit_code.has_value() || metadata.term_signal.has_value();
  recording.orphan_until_ns_ = now_ns + kReconnectNs;
  return recording;
}

void Recording::Attach(const ipc::Attach& request) {
  session::Metadata& metadata = log_.metadata();
  metadata.root_pid = request.pid;
  metadata.root_start_time_ticks = request.start_time_ticks;
  metadata.hook_state = request.hook_state;
  metadata.hook_reason = request.hook_reason;
  tree_ = TreeOf(metadata);
  member_pids_.insert(request.pid);
  log_.SaveMetadata();
}

void Recording::Finish(const ipc::Finish& request, uint64_t now_ns, FinishReply reply) {
  session::Metadata& metadata = log_.metadata();
  metadata.exit_code = request.exit_code;
  metadata.term_signal = request.term_signal;
  metadata.core_dumped = request.core_dumped;
  metadata.max_rss_bytes = request.max_rss_bytes;
  metadata.user_cpu_ns = request.user_cpu_ns;
  metadata.system_cpu_ns = request.system_cpu_ns;
  log_.AppendOwn(event::Api::kNone, metadata.root_pid,
                 event::ProcessExit{request.exit_code.value_or(-1),
                                    static_cast<uint32_t>(request.term_signal.value_or(0))});
  metadata.end_mono_ns = now_ns;
  finish_asked_ns_ = now_ns;
  finish_reply_ = std::move(reply);
  root_ended_ = true;
  next_check_ns_ = 0;
  members_current_ = false;
  if (MayBeReported(request.term_signal)) linger_until_ns_ = now_ns + kLateReportsNs;
}

void Recording::UpdateMembers(const std::vector<probe::ProcessEntry>& processes) {
  if (!attached()) return;
  const probe::ProcessTree::Change change = tree_.Update(processes);
  members_current_ = true;
  for (const probe::ProcessTree::Member& member : tree_.members()) {
    const probe::ProcessEntry& process = member.process;
    NoteProcess(process.pid, process.start_time_ticks, process.parent_pid, process.name);
    seen_by_ring_.erase({process.pid, process.start_time_ticks});
  }
  for (const probe::ProcessTree::Member& member : change.left) {
    // How the root ended is told by its record, if that is there to tell.
    if (member.is_root && !client_lost_) continue;
    log_.AppendOwn(event::Api::kNone, member.process.pid, event::ProcessExit{-1, 0});
  }
  NoteEnds(false);
}

// Of those seen by their ring alone, when that is gone.
void Recording::NoteEnds(bool all) {
  std::erase_if(seen_by_ring_, [&](const std::pair<uint32_t, uint64_t>& process) {
    const auto& [pid, start_time_ticks] = process;
    if (!all && rings_.HasRing({pid, start_time_ticks})) return false;
    if (pid != metadata().root_pid) log_.AppendOwn(event::Api::kNone, pid, event::ProcessExit{-1, 0});
    return true;
  });
}

void Recording::NoteProcess(uint32_t pid, uint64_t start_time_ticks, uint32_t parent_pid,
                            std::string_view name) {
  member_pids_.insert(pid);
  const auto [known, fresh] = known_.try_emplace({pid, start_time_ticks});
  Told& told = known->second;
  std::string executable = ExecutableOf(pid, parent_pid);
  const bool news = !executable.empty() && executable != told.executable;
  if (!name.empty()) told.name = name;
  if (!fresh && !news) return;
  if (news) told.executable = std::move(executable);
  event::ProcessSeen seen;
  seen.start_time_ticks = start_time_ticks;
  seen.parent_pid = parent_pid;
  seen.process_name = std::string_view(told.name);
  seen.executable = std::string_view(told.executable);
  log_.AppendOwn(event::Api::kNone, pid, seen);
}

// The recorded process, held before it executes its program, still runs its parent's.
std::string Recording::ExecutableOf(uint32_t pid, uint32_t parent_pid) const {
  std::string executable = ProcessExecutable(static_cast<pid_t>(pid));
  const session::Metadata& metadata = log_.metadata();
  if (pid != metadata.root_pid || metadata.argv.empty()) return executable;
  const bool held = executable == ProcessExecutable(static_cast<pid_t>(parent_pid));
  if (!executable.empty() && !held) return executable;
  const std::filesystem::path asked_for(metadata.argv.front());
  if (!asked_for.has_parent_path()) return asked_for.native();
  std::error_code error;
  const std::filesystem::path path = std::filesystem::path(metadata.cwd) / asked_for;
  const std::filesystem::path resolved = std::filesystem::weakly_canonical(path, error);
  return (error ? path : resolved).native();
}

Recording::Progress Recording::Poll(uint64_t now_ns) {
  NoteNewProcesses();
  const DrainStats stats = rings_.Drain(kEventsPerStep, [this](const event::Event& event) {
    saw_gpu_ |= event.envelope.api != event::Api::kNone;
    log_.Append(event);
  });
  ring_event_count_ += stats.event_count;
  log_.metadata().corrupt_frames += stats.corrupt_frames;
  if (stats.corrupt_frames != 0) {
    throttle_.Log(LogLevel::kWarning, "corrupt",
                  fmt::format("session {}: {} ring frames could not be read", session::ShortId(metadata()),
                              log_.metadata().corrupt_frames),
                  now_ns);
  }
  log_.FlushIfDue(now_ns);
  Progress progress{stats.event_count != 0, stats.more, false};
  if (stats.more) {
    if (finish_reply_ && now_ns - finish_asked_ns_ > kFinishLimitNs) {
      SettleHookState();
      AnswerFinish(false);
    }
    return progress;
  }
  if (now_ns >= next_check_ns_ || finish_reply_) CheckDeaths(now_ns);
  progress.busy |= finish_reply_ != nullptr;
  const bool nobody_left = rings_.open_count() == 0 && LiveCount() == 0 && !wants_members();
  progress.done = root_ended_ && nobody_left && now_ns >= linger_until_ns_;
  return progress;
}

void Recording::NoteNewProcesses() {
  for (const ring::ProcessIdentity& process : rings_.Discover()) {
    uint32_t parent_pid = 0;
    if (const auto facts = ReadProcessFacts(static_cast<pid_t>(process.pid)); facts.has_value()) {
      parent_pid = facts->parent_pid;
    }
    const std::pair identity(process.pid, process.start_time_ticks);
    if (!known_.contains(identity)) seen_by_ring_.insert(identity);
    NoteProcess(process.pid, process.start_time_ticks, parent_pid, {});
    // Kept at once: should this daemon die, its successor may find no ring any more.
    if (std::exchange(hook_heard_, true) || log_.metadata().hook_state != "requested") continue;
    log_.metadata().hook_state = "injected";
    log_.metadata().hook_reason.clear();
    log_.SaveMetadata();
  }
  for (const ring::Failure& failure : rings_.TakeFailures()) NoteFailure(failure);
}

void Recording::NoteFailure(const ring::Failure& failure) {
  uint32_t parent_pid = 0;
  if (const auto facts = ReadProcessFacts(static_cast<pid_t>(failure.process.pid)); facts.has_value()) {
    parent_pid = facts->parent_pid;
  }
  NoteProcess(failure.process.pid, failure.process.start_time_ticks, parent_pid, {});
  ++failed_ring_count_;
  ring_failure_ = ring::Describe(failure.reason);
  if (failure.reason == ring::FailureReason::kNoSpace)
    ring_failure_ += " in " + rings_.path().parent_path().native();
  const std::string text = fmt::format("process {} is not recorded: {}", failure.process.pid, ring_failure_);
  log_.AppendOwn(event::Api::kNone, failure.process.pid, event::HookSilent{std::string_view(text)});
  throttle_.Log(LogLevel::kWarning, "no ring",
                fmt::format("session {}: {}", session::ShortId(metadata()), text), MonotonicNowNs());
}

void Recording::NoteDrops(const RingDrops& drops) {
  for (const ring::DroppedCount& drop : drops.counts) {
    const event::KindName name = DroppedName(drops.api, drop.kind);
    dropped_count_ += drop.count;
    log_.metadata().dropped_counts[std::string(name.view())] += drop.count;
    log_.AppendOwn(drops.api, drops.process.pid, event::HookDropped{name.view(), drop.count});
  }
}

// Nobody waits for a child of the recorded process but its parent, which tells us nothing.
void Recording::NoteEnd(const RingEnd& end) {
  const bool told_by_record = end.process.pid == metadata().root_pid && !client_lost_;
  if (end.said_goodbye || !end.work_in_flight || told_by_record) return;
  if (ring::IsAlive(end.process)) return;  // It executes something else by now.
  const auto told = known_.find({end.process.pid, end.process.start_time_ticks});
  event::CrashHint hint;
  hint.target_pid = end.process.pid;
  if (told != known_.end()) hint.process_name = std::string_view(told->second.name);
  const std::string text =
      fmt::format("process {} ended unexpectedly, with GPU work in flight", end.process.pid);
  hint.text = std::string_view(text);
  log_.AppendOwn(event::Api::kNone, end.process.pid, hint);
}

void Recording::CheckDeaths(uint64_t now_ns) {
  next_check_ns_ = now_ns + kCheckPeriodNs;
  const auto note_drops = [this](const RingDrops& drops) { NoteDrops(drops); };
  rings_.ReportDrops(note_drops);
  rings_.RemoveFinished(note_drops);
  for (const RingEnd& end : rings_.TakeEnded()) NoteEnd(end);
  // Whoever outlives the recorded process moves the end.
  const bool ending = root_ended_ && log_.metadata().end_mono_ns != 0;
  if (ending && members_current_ && LiveCount() != 0) log_.metadata().end_mono_ns = now_ns;
  if (client_lost_ && !root_ended_ && now_ns >= orphan_until_ns_ && RootGone()) {
    root_ended_ = true;
    members_current_ = false;
  }
  if (!finish_reply_) return;
  if (wants_members()) return;
  const bool leftovers = rings_.open_count() != rings_.live_count();
  const uint64_t waited_ns = now_ns - finish_asked_ns_;
  if (leftovers && waited_ns < kFinishLimitNs) return;
  if (LiveCount() != 0 && waited_ns < kSettleNs) {
    members_current_ = now_ns < next_look_ns_;
    if (!members_current_) next_look_ns_ = now_ns + kLookAgainNs;
    return;
  }
  // With nothing left Close() answers, when the session is complete on disk.
  if (rings_.open_count() == 0 && LiveCount() == 0 && now_ns >= linger_until_ns_) return;
  SettleHookState();
  log_.SaveMetadata();
  AnswerFinish(!leftovers);
}

// Processes that still run, the root not among them. Those with a ring are members too, but for those that
// cleared their environment.
size_t Recording::LiveCount() const {
  size_t members = 0;
  for (const probe::ProcessTree::Member& member : tree_.members()) members += member.is_root ? 0 : 1;
  return std::max(members, rings_.live_count());
}

bool Recording::AnyAlive() const { return LiveCount() != 0 || (attached() && !RootGone()); }

bool Recording::RootGone() const {
  return !ring::IsAlive({metadata().root_pid, metadata().root_start_time_ticks});
}

// What the hook turned out to be, now that the recorded process has ended.
void Recording::SettleHookState() {
  session::Metadata& metadata = log_.metadata();
  if (saw_gpu_) {
    metadata.hook_state = "injected";
    metadata.hook_reason.clear();
  } else if (metadata.hook_state == "requested") {
    metadata.hook_state = "requested-but-silent";
    metadata.hook_reason =
        failed_ring_count_ == 0 ? "no hook reported from a recorded process" : ring_failure_;
    // A file for this event alone would be too much; those without a ring have theirs.
    if (log_.adopted() || failed_ring_count_ != 0) return;
    log_.AppendOwn(event::Api::kNone, metadata.root_pid,
                   event::HookSilent{std::string_view(metadata.hook_reason)});
  }
}

void Recording::AnswerFinish(bool drained) {
  if (!finish_reply_) return;
  ipc::Finished finished;
  // What an earlier daemon counted died with it; the numbering of the session's events went on.
  finished.event_count = log_.adopted() ? log_.last_seq() : ring_event_count_;
  finished.dropped_count = dropped_count_;
  finished.storage_lost_count = log_.lost_count();
  finished.process_count = static_cast<uint32_t>(rings_.process_count());
  finished.live_process_count = static_cast<uint32_t>(LiveCount());
  finished.drained = drained;
  finished.hook_state = metadata().hook_state;
  finished.saw_gpu = saw_gpu_;
  finished.failed_ring_count = failed_ring_count_;
  finished.ring_failure = ring_failure_;
  std::exchange(finish_reply_, nullptr)(finished);
}

std::string Recording::EndReason() const {
  if (log_.adopted()) return "recovered";
  if (metadata().term_signal.has_value()) return "signal";
  return metadata().exit_code.has_value() ? "exit" : "client-lost";
}

void Recording::Close(std::string_view end_reason) {
  const bool drained = rings_.open_count() == 0;
  rings_.ReportDrops([this](const RingDrops& drops) { NoteDrops(drops); });
  NoteEnds(true);
  SettleHookState();
  log_.Close(end_reason);
  // Only now, and before anybody hears of the end: a daemon that dies here leaves rings to its successor, or
  // none and a complete file.
  rings_.RemoveAll();
  log_.SaveMetadata();
  log_.Unlock();
  AnswerFinish(drained);
  Log(LogLevel::kInfo,
      fmt::format("session {} ended: {}, {} events, {} dropped", session::ShortId(metadata()), end_reason,
                  ring_event_count_, dropped_count_));
}

void Recording::Detach() {
  log_.Detach("daemon-shutdown");
  log_.SaveMetadata();
  log_.Unlock();
  AnswerFinish(rings_.open_count() == 0);
  Log(LogLevel::kInfo, fmt::format("session {} left to the next smeltrd: its program still runs",
                                   session::ShortId(metadata())));
}

ipc::RecordingStatus Recording::Status() {
  ipc::RecordingStatus status;
  status.session_id = metadata().session_id;
  status.short_id = session::ShortId(metadata());
  status.kind = session::Name(metadata().kind);
  status.name = metadata().name;
  for (const std::string& argument : metadata().argv) {
    if (status.command.size() > kCommandLength) break;
    status.command += status.command.empty() ? "" : " ";
    // Characters of up to four bytes.
    status.command += std::string_view(argument).substr(0, 4 * kCommandLength);
  }
  status.command = Truncate(status.command, kCommandLength);
  status.state = root_ended_ ? "ending" : attached() ? "recording" : "reserved";
  if (log_.paused()) status.state = "paused";
  status.root_pid = metadata().root_pid;
  // Each with a ring is among the tree's, if it has its environment still.
  status.process_count = static_cast<uint32_t>(std::max(tree_.members().size(), rings_.live_count()));
  status.event_count = log_.event_count();
  status.dropped_count = dropped_count_;
  status.storage_lost_count = log_.lost_count();
  status.started_mono_ns = metadata().start_mono_ns;
  return status;
}

void Recording::Discard() {
  rings_.RemoveAll();
  log_.Discard();
}

}  // namespace smeltr::daemon
