#include "daemon/post_mortem.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "session/identity.h"
#include "session/store.h"
#include "util/format.h"

namespace smeltr::daemon {
namespace {

// A SIGKILL so long after memory was seen to be short is somebody's.
constexpr uint64_t kMemoryEvidenceNs = 30 * kNsPerSecond;
constexpr size_t kMaxRequestsPending = 4;
constexpr size_t kMaxLinkedDumps = 100;
constexpr size_t kMaxCgroups = 64;
constexpr size_t kMaxReasonCharacters = 200;

std::vector<session::TriggerNote> NotesOf(const Incident& incident) {
  std::vector<session::TriggerNote> notes;
  notes.reserve(incident.triggers.size());
  for (const Trigger& trigger : incident.triggers) {
    notes.push_back({.trigger_class = std::string(Name(trigger.trigger_class)),
                     .text = trigger.text,
                     .ts_ns = trigger.ts_ns});
  }
  return notes;
}

// Of a moment of the session clock, as the clocks stand now.
uint64_t WallTimeAt(uint64_t mono_ns) {
  const uint64_t now_ns = MonotonicNowNs();
  return WallNowNs() - (now_ns - std::min(mono_ns, now_ns));
}

// What the chunks cover of the time asked for; those kept apart for their kinds may be far older.
void NoteCovered(session::Metadata& metadata, const std::vector<RecordedChunk>& chunks, uint64_t begin_ns,
                 uint64_t end_ns) {
  uint64_t first_ns = end_ns;
  uint64_t last_ns = begin_ns;
  for (const RecordedChunk& chunk : chunks) {
    if (chunk.max_ts_ns < begin_ns || chunk.min_ts_ns > end_ns) continue;
    first_ns = std::min(first_ns, std::max(chunk.min_ts_ns, begin_ns));
    last_ns = std::max(last_ns, std::min(chunk.max_ts_ns, end_ns));
  }
  metadata.covered_begin_ns = std::min(first_ns, last_ns);
  metadata.covered_end_ns = last_ns;
  // start_mono_ns stays the source's: "+12.3 s" means the same moment in both.
  metadata.started_rfc3339 = session::FormatUtc(WallTimeAt(metadata.covered_begin_ns));
  metadata.ended_rfc3339 = session::FormatUtc(WallTimeAt(metadata.covered_end_ns));
}

}  // namespace

PostMortems::PostMortems(Host& host, FlightRecorder& recorder, std::filesystem::path sessions_directory,
                         const IncidentLimits& limits)
    : host_(host),
      recorder_(recorder),
      sessions_directory_(std::move(sessions_directory)),
      incidents_(limits),
      thread_(sessions_directory_) {}

void PostMortems::NoteCandidate(std::string_view session_id, const event::Event& event, uint64_t now_ns) {
  NoteEvidence(session_id, event, now_ns);
  std::optional<Trigger> trigger = FindTrigger(event);
  if (!trigger || !Belongs(session_id, *trigger, now_ns)) return;
  const std::string text = trigger->text;
  const std::string_view short_id = session_id.substr(0, 8);
  switch (incidents_.Note(session_id, std::move(*trigger), now_ns)) {
    case Incidents::Verdict::kOpened:
      facts_.try_emplace(std::string(session_id));
      Log(LogLevel::kWarning, fmt::format("session {}: {}: writing a post-mortem", short_id, text));
      break;
    case Incidents::Verdict::kJoined:
      break;
    case Incidents::Verdict::kSuppressed:
      throttle_.Log(LogLevel::kInfo, "suppressed",
                    fmt::format("session {}: {}: no post-mortem, there were enough of late", short_id, text),
                    now_ns);
      break;
  }
}

void PostMortems::NoteEvidence(std::string_view session_id, const event::Event& event, uint64_t now_ns) {
  const auto* vm = std::get_if<event::VmSample>(&event.payload);
  const auto* group = std::get_if<event::CgroupMemory>(&event.payload);
  const bool device = std::holds_alternative<event::DeviceInfo>(event.payload);
  if (vm == nullptr && group == nullptr && !device) return;
  SessionFacts& facts = facts_[std::string(session_id)];
  facts.uses_gpu |= device;
  if (vm != nullptr && vm->pressure.view == "critical") facts.memory_short_ns = now_ns;
  if (device) return;
  const std::string counter = group != nullptr ? "cgroup " + std::string(group->cgroup.view) : "machine";
  const uint64_t count = group != nullptr ? group->oom_kill_count : vm->oom_kill_count;
  const auto known = facts.oom_kills.find(counter);
  if (known == facts.oom_kills.end()) {
    // The first figure counts kills of before.
    if (facts.oom_kills.size() < kMaxCgroups) facts.oom_kills.emplace(counter, count);
    return;
  }
  if (count > known->second) facts.memory_short_ns = now_ns;
  known->second = count;
}

bool PostMortems::MemoryWasShort(std::string_view session_id, uint64_t now_ns) const {
  const auto facts = facts_.find(session_id);
  if (facts == facts_.end() || facts->second.memory_short_ns == 0) return false;
  return now_ns - facts->second.memory_short_ns <= kMemoryEvidenceNs;
}

bool PostMortems::Belongs(std::string_view session_id, const Trigger& trigger, uint64_t now_ns) {
  if (trigger.needs_memory_evidence && !MemoryWasShort(session_id, now_ns)) return false;
  switch (trigger.scope) {
    case TriggerScope::kSession:
      return true;
    case TriggerScope::kMember:
      return trigger.pid != 0 && host_.IsMember(session_id, trigger.pid);
    case TriggerScope::kDevice: {
      const auto facts = facts_.find(session_id);
      return facts != facts_.end() && facts->second.uses_gpu;
    }
    case TriggerScope::kMachine: {
      // Both kinds of session hear of the machine; a recording is of more interest.
      const std::optional<session::Metadata> metadata = host_.SessionMetadata(session_id);
      return metadata && (metadata->kind == session::SessionKind::kScoped || !host_.HasScopedSessions());
    }
  }
  return false;
}

void PostMortems::Request(std::string_view session_id, std::string_view label, uint64_t now_ns, Reply reply) {
  const auto requests = static_cast<size_t>(
      std::ranges::count_if(pending_, [](const auto& entry) { return entry.second.reply != nullptr; }));
  if (requests >= kMaxRequestsPending || !incidents_.WithinBytes(now_ns)) {
    reply(Fail(ErrorCode::kUnavailable, "too many dumps just now; try again later"));
    return;
  }
  Incident incident;
  incident.session_id = session_id;
  incident.opened_ns = now_ns;
  incident.trigger_count = 1;
  incident.triggers.push_back(
      {.trigger_class = TriggerClass::kRequest,
       .ts_ns = now_ns,
       .text = label.empty() ? "asked for" : Printable(Truncate(label, kMaxReasonCharacters))});
  Write(incident, label, now_ns, std::move(reply));
}

void PostMortems::Write(const Incident& incident, std::string_view label, uint64_t now_ns, Reply reply) {
  const auto refuse = [&](ErrorCode code, std::string_view text) {
    Log(LogLevel::kWarning,
        fmt::format("session {}: no post-mortem: {}", incident.session_id.substr(0, 8), text));
    if (reply) reply(Fail(code, text));
  };
  host_.FlushSession(incident.session_id);
  const std::optional<session::Metadata> source = host_.SessionMetadata(incident.session_id);
  if (!source) return refuse(ErrorCode::kNotFound, "the session is not open any more");
  const uint64_t window_ns = recorder_.window_ns();
  const uint64_t begin_ns = incident.opened_ns > window_ns ? incident.opened_ns - window_ns : 0;
  DumpJob job;
  job.chunks = recorder_.Snapshot(incident.session_id, begin_ns, now_ns);
  if (job.chunks.empty()) return refuse(ErrorCode::kNotFound, "nothing happened in the session of late");
  job.label = label;
  job.reason = incident.triggers.front().text;
  job.metadata = MetadataAbout(*source);
  job.metadata.triggers = NotesOf(incident);
  job.metadata.trigger_count = incident.trigger_count;
  job.metadata.recorder_evicted_count = recorder_.evicted_count(incident.session_id);
  NoteCovered(job.metadata, job.chunks, begin_ns, now_ns);
  const uint64_t number = thread_.Write(std::move(job));
  pending_[number] = {.source_session = incident.session_id, .reply = std::move(reply)};
}

void PostMortems::SessionClosing(std::string_view session_id, uint64_t now_ns) {
  for (const Incident& incident : incidents_.TakeOpen(session_id)) {
    Write(incident, Name(incident.first_class), now_ns, nullptr);
  }
  UpdateGrown(incidents_.TakeGrown(now_ns, session_id));
  if (const auto facts = facts_.find(session_id); facts != facts_.end()) facts_.erase(facts);
}

void PostMortems::Poll(uint64_t now_ns) {
  for (const Incident& incident : incidents_.TakeDue(now_ns)) {
    Write(incident, Name(incident.first_class), now_ns, nullptr);
  }
  TakeFinished(now_ns);
  UpdateGrown(incidents_.TakeGrown(now_ns));
}

// Triggers that came after the dump was written.
void PostMortems::UpdateGrown(const std::vector<Incident>& grown) {
  for (const Incident& incident : grown) {
    const auto facts = facts_.find(incident.session_id);
    if (facts == facts_.end() || facts->second.last_dump.empty()) continue;
    thread_.UpdateTriggers(facts->second.last_dump, NotesOf(incident), incident.trigger_count);
  }
}

void PostMortems::TakeFinished(uint64_t now_ns) {
  for (DumpThread::Finished& finished : thread_.TakeFinished()) {
    const auto found = pending_.find(finished.number);
    if (found == pending_.end()) continue;
    const Pending pending = std::move(found->second);
    pending_.erase(found);
    if (finished.dump.has_value()) {
      ++written_count_;
      incidents_.NoteWritten(finished.dump->file_bytes, now_ns);
      const auto facts = facts_.find(pending.source_session);
      if (!pending.reply && facts != facts_.end()) facts->second.last_dump = finished.dump->directory;
      Log(LogLevel::kInfo,
          fmt::format("session {}: post-mortem {} with {} events", pending.source_session.substr(0, 8),
                      finished.dump->directory.filename().native(), finished.dump->event_count));
      host_.Announce(*finished.dump);
    } else {
      Log(LogLevel::kError, fmt::format("session {}: no post-mortem: {}", pending.source_session.substr(0, 8),
                                        finished.dump.error().text()));
    }
    if (pending.reply) pending.reply(finished.dump);
  }
}

void PostMortems::Shutdown(uint64_t deadline_ns) {
  const uint64_t now_ns = MonotonicNowNs();
  for (const Incident& incident : incidents_.TakeAllOpen()) {
    Write(incident, Name(incident.first_class), now_ns, nullptr);
  }
  const bool all = thread_.WaitUntil(deadline_ns);
  TakeFinished(now_ns);
  if (all) {
    UpdateGrown(incidents_.TakeGrown(UINT64_MAX));
    static_cast<void>(thread_.WaitUntil(deadline_ns));
  }
  for (auto& [number, pending] : std::exchange(pending_, {})) {
    if (pending.reply)
      pending.reply(Fail(ErrorCode::kUnavailable, "smeltrd ended before the dump was complete"));
  }
}

event::PostMortemFlushed MakeFlushedEvent(const WrittenDump& dump) {
  event::PostMortemFlushed flushed;
  flushed.reason = std::string_view(dump.reason);
  flushed.source_session = std::string_view(dump.source_session);
  flushed.event_count = dump.event_count;
  flushed.dump_session = std::string_view(dump.session_id);
  flushed.begin_ns = dump.begin_ns;
  flushed.end_ns = dump.end_ns;
  flushed.trigger_count = dump.trigger_count;
  return flushed;
}

void LinkDump(session::Metadata& source, const WrittenDump& dump) {
  auto& ids = source.post_mortems;
  const bool known = std::ranges::find(ids, dump.session_id) != ids.end();
  if (!known && ids.size() < kMaxLinkedDumps) ids.push_back(dump.session_id);
}

Result<void> LinkToSource(const std::filesystem::path& sessions_directory, const WrittenDump& dump) {
  SMELTR_ASSIGN_OR_RETURN(session::StoredSession stored,
                          session::Resolve(sessions_directory, dump.source_session));
  LinkDump(stored.metadata, dump);
  return session::WriteMetadata(stored.directory, stored.metadata);
}

}  // namespace smeltr::daemon
