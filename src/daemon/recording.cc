#include "daemon/recording.h"

#include <fmt/format.h>

#include <utility>

#include "event/names.h"
#include "util/file.h"
#include "util/process.h"

namespace smeltr::daemon {
namespace {

// Per ring and step: some milliseconds, so that no recording keeps others or requests waiting.
constexpr uint64_t kEventsPerStep = 20'000;
constexpr uint64_t kCheckPeriodNs = 100'000'000;
// Processes that die together with the recorded one get this long before it counts as outlived.
constexpr uint64_t kSettleNs = 200'000'000;
// For the record of a session whose daemon died to find the next daemon.
constexpr uint64_t kReconnectNs = 2 * kNsPerSecond;
constexpr uint64_t kFinishLimitNs = uint64_t{ipc::kFinishLimitMs} * 1'000'000;

event::KindName DroppedName(event::Api api, event::Kind kind) {
  const event::KindInfo* info = event::FindKind(kind);
  return {info != nullptr && info->naming == event::Naming::kPerApi ? api : event::Api::kNone, kind};
}

}  // namespace

Result<Recording> Recording::Open(const std::filesystem::path& sessions_directory,
                                  const std::filesystem::path& ring_base, session::Metadata metadata,
                                  DiskReserve& reserve) {
  SMELTR_ASSIGN_OR_RETURN(SessionLog log,
                          SessionLog::Create(sessions_directory, std::move(metadata), reserve));
  RingDirectory rings(ring_base / log.metadata().session_id);
  if (const auto made = MakePrivateDirectory(rings.path()); !made.has_value()) {
    log.Discard();
    return std::unexpected(made.error());
  }
  return Recording(std::move(log), std::move(rings));
}

Recording Recording::Adopt(session::StoredSession session, std::filesystem::path ring_directory,
                           DiskReserve& reserve, uint64_t now_ns) {
  Recording recording(SessionLog::Adopt(std::move(session), reserve),
                      RingDirectory(std::move(ring_directory)));
  recording.client_lost_ = true;
  recording.orphan_until_ns_ = now_ns + kReconnectNs;
  return recording;
}

void Recording::Attach(const ipc::Attach& request) {
  session::Metadata& metadata = log_.metadata();
  metadata.root_pid = request.pid;
  metadata.root_start_time_ticks = request.start_time_ticks;
  metadata.hook_state = request.hook_state;
  metadata.hook_reason = request.hook_reason;
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
  finish_asked_ns_ = now_ns;
  finish_reply_ = std::move(reply);
  root_ended_ = true;
  next_check_ns_ = 0;
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
  progress.done = root_ended_ && rings_.open_count() == 0;
  return progress;
}

void Recording::NoteNewProcesses() {
  for (const ring::ProcessIdentity& process : rings_.Discover()) {
    const auto pid = static_cast<pid_t>(process.pid);
    event::ProcessSeen seen;
    seen.start_time_ticks = process.start_time_ticks;
    const std::string executable = ProcessExecutable(pid);
    seen.executable = std::string_view(executable);
    if (const auto facts = ReadProcessFacts(pid); facts.has_value()) seen.parent_pid = facts->parent_pid;
    log_.AppendOwn(event::Api::kNone, process.pid, seen);
    // Kept at once: should this daemon die, its successor may find no ring any more.
    if (std::exchange(hook_heard_, true) || log_.metadata().hook_state != "requested") continue;
    log_.metadata().hook_state = "injected";
    log_.metadata().hook_reason.clear();
    log_.SaveMetadata();
  }
}

void Recording::NoteDrops(const RingDrops& drops) {
  for (const ring::DroppedCount& drop : drops.counts) {
    const event::KindName name = DroppedName(drops.api, drop.kind);
    dropped_count_ += drop.count;
    log_.metadata().dropped_counts[std::string(name.view())] += drop.count;
    log_.AppendOwn(drops.api, drops.process.pid, event::HookDropped{name.view(), drop.count});
  }
}

void Recording::CheckDeaths(uint64_t now_ns) {
  next_check_ns_ = now_ns + kCheckPeriodNs;
  const auto note_drops = [this](const RingDrops& drops) { NoteDrops(drops); };
  rings_.ReportDrops(note_drops);
  rings_.RemoveFinished(note_drops);
  if (client_lost_ && !root_ended_ && now_ns >= orphan_until_ns_) root_ended_ = RootGone();
  if (!finish_reply_) return;
  const bool leftovers = rings_.open_count() != rings_.live_count();
  const uint64_t waited_ns = now_ns - finish_asked_ns_;
  if (leftovers && waited_ns < kFinishLimitNs) return;
  if (rings_.live_count() != 0 && waited_ns < kSettleNs) return;
  // With nothing open Close() answers, when the session is complete on disk.
  if (rings_.open_count() == 0) return;
  SettleHookState();
  log_.SaveMetadata();
  AnswerFinish(!leftovers);
}

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
    metadata.hook_reason = "no recorded process created a Vulkan instance";
    if (log_.adopted()) return;  // A file for this event alone would be too much.
    log_.AppendOwn(event::Api::kNone, metadata.root_pid,
                   event::HookSilent{std::string_view(metadata.hook_reason)});
  }
}

void Recording::AnswerFinish(bool drained) {
  if (!finish_reply_) return;
  ipc::Finished finished;
  finished.event_count = ring_event_count_;
  finished.dropped_count = dropped_count_;
  finished.storage_lost_count = log_.lost_count();
  finished.process_count = static_cast<uint32_t>(rings_.process_count());
  finished.live_process_count = static_cast<uint32_t>(rings_.live_count());
  finished.drained = drained;
  finished.hook_state = metadata().hook_state;
  finished.saw_gpu = saw_gpu_;
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
  SettleHookState();
  log_.Close(end_reason);
  // Only now, and before anybody hears of the end: a daemon that dies here leaves rings to its successor, or
  // none and a complete file.
  rings_.RemoveAll();
  log_.SaveMetadata();
  AnswerFinish(drained);
  Log(LogLevel::kInfo,
      fmt::format("session {} ended: {}, {} events, {} dropped", session::ShortId(metadata()), end_reason,
                  ring_event_count_, dropped_count_));
}

void Recording::Discard() {
  rings_.RemoveAll();
  log_.Discard();
}

}  // namespace smeltr::daemon
