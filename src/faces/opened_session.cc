#include "faces/opened_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "faces/session_reference.h"
#include "session/open_lock.h"
#include "session/segmented_writer.h"
#include "util/format.h"
#include "util/process.h"

namespace smeltr::faces {
namespace {

bool RootRuns(const session::Metadata& metadata) {
  if (metadata.root_pid == 0 || metadata.boot_id != BootId()) return false;
  const auto facts = ReadProcessFacts(static_cast<pid_t>(metadata.root_pid));
  return facts.has_value() && facts->start_time_ticks == metadata.root_start_time_ticks &&
         facts->state != 'Z' && facts->state != 'X';
}

// What an ended session once held and its files no longer do. The metadata counts what was appended, what the
// disk then refused and what was deleted for --max-size included.
void NoteMissing(OpenedSession& opened) {
  const session::Metadata& metadata = opened.stored.metadata;
  const bool grows = opened.state == SessionState::kLive || opened.state == SessionState::kWaiting;
  if (grows || metadata.event_counts.empty() || opened.readers.empty()) return;
  uint64_t appended = 0;
  for (const auto& [kind, count] : metadata.event_counts) appended += count;
  const uint64_t gone =
      metadata.storage_lost_count + metadata.trimmed_event_count + metadata.repair_lost_count;
  const uint64_t written = appended - std::min(appended, gone);
  const uint64_t found = opened.event_count();
  if (found < written) {
    opened.problems.push_back(fmt::format("{} of {} events are missing: {} was cut or damaged afterwards",
                                          FormatCount(written - found), FormatCount(written),
                                          session::kEventsFile));
  } else if (opened.damage().no_footer && opened.state == SessionState::kEnded) {
    opened.problems.push_back(
        fmt::format("{} lost its index, nothing else: no event is missing", session::kEventsFile));
  }
}

std::string Quoted(const std::string& argument) {
  const bool plain =
      !argument.empty() && argument.find_first_of(" \t\n\"'\\$`*?[]{}();&|<>#~!") == std::string::npos;
  if (plain) return argument;
  std::string quoted = "'";
  for (const char c : argument) {
    if (c == '\'') {
      quoted += "'\\''";
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

}  // namespace

SessionState StateOf(const session::StoredSession& stored) {
  const session::Metadata& metadata = stored.metadata;
  if (metadata.ended_rfc3339.empty() && session::IsOpen(stored.directory)) return SessionState::kLive;
  if (metadata.end_reason == "recovered") return SessionState::kRecovered;
  if (metadata.ended_rfc3339.empty() && RootRuns(metadata)) return SessionState::kWaiting;
  // Without an end but with a reason: left to the next daemon by one that was stopped.
  const bool ended = !metadata.end_reason.empty() || !metadata.ended_rfc3339.empty();
  return ended ? SessionState::kEnded : SessionState::kCutOff;
}

std::string_view Name(SessionState state) {
  switch (state) {
    case SessionState::kLive:
      return "live";
    case SessionState::kEnded:
      return "ended";
    case SessionState::kRecovered:
      return "recovered";
    case SessionState::kWaiting:
      return "waiting";
    case SessionState::kCutOff:
      return "cut off";
  }
  return "unknown";
}

uint64_t OpenedSession::event_count() const {
  uint64_t count = 0;
  for (const session::Reader& reader : readers) count += reader.summary().event_count;
  return count;
}

uint64_t OpenedSession::file_bytes() const {
  uint64_t bytes = 0;
  for (const session::Reader& reader : readers) bytes += reader.summary().file_bytes;
  return bytes;
}

uint64_t OpenedSession::duration_ns() const {
  const analysis::TimeRange range = source().range();
  return range.end_ns - range.begin_ns;
}

analysis::SessionSource OpenedSession::source() const {
  const session::Metadata& metadata = stored.metadata;
  if (metadata.kind == session::SessionKind::kPostMortem) {
    return analysis::SessionSource(readers, {metadata.covered_begin_ns, metadata.covered_end_ns},
                                   metadata.covered_begin_ns);
  }
  // Between the first file, which stays for good, and the next.
  const bool trimmed = metadata.trimmed_files != 0 && readers.size() > 1;
  return analysis::SessionSource(readers, {0, metadata.end_mono_ns},
                                 trimmed ? readers[1].summary().min_ts_ns : 0);
}

session::Damage OpenedSession::damage() const {
  session::Damage all;
  for (const session::Reader& reader : readers) {
    const session::Damage one = reader.damage();
    all.skipped_bytes += one.skipped_bytes;
    all.skipped_chunks += one.skipped_chunks;
    all.torn_tail |= one.torn_tail;
    all.no_footer |= one.no_footer;
    all.unknown_kind_events += one.unknown_kind_events;
  }
  return all;
}

std::vector<session::KindCount> OpenedSession::counts() const {
  std::map<std::pair<event::Kind, event::Api>, uint64_t> sums;
  for (const session::Reader& reader : readers) {
    for (const session::KindCount& one : reader.summary().counts) sums[{one.kind, one.api}] += one.count;
  }
  std::vector<session::KindCount> counts;
  counts.reserve(sums.size());
  for (const auto& [key, count] : sums) counts.push_back({key.second, key.first, count});
  return counts;
}

OpenedSession OpenSession(session::StoredSession stored) {
  OpenedSession opened;
  opened.state = StateOf(stored);
  opened.stored = std::move(stored);
  std::vector<uint32_t> segments = session::ListSegments(opened.stored.directory);
  // The first belongs to every session: without it, that is told.
  if (segments.empty() || segments.front() != 0) segments.insert(segments.begin(), 0);
  for (const uint32_t number : segments) {
    const std::string name = session::SegmentName(number);
    auto reader = session::Reader::Open(opened.stored.directory / name);
    if (reader.has_value()) {
      opened.readers.push_back(std::move(*reader));
    } else if (number == 0 || reader.error().code() != ErrorCode::kNotFound) {
      // One that was there a moment ago was deleted by its daemon.
      opened.problems.push_back(fmt::format("{}: {}", name, reader.error().text()));
    }
  }
  NoteMissing(opened);
  return opened;
}

Result<OpenedSession> ChooseSession(const std::filesystem::path& sessions_directory,
                                    const SessionChoice& choice) {
  if (choice.last && !choice.reference.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "give either a session or --last, not both");
  }
  if (choice.reference.empty() && !choice.last && !choice.default_to_last) {
    return Fail(ErrorCode::kInvalidArgument,
                "which session? Give its id or name, or --last; `smeltr sessions ls` lists them");
  }
  auto found = choice.reference.empty() ? session::ResolveLast(sessions_directory, choice.include_ambient)
                                        : FindSession(sessions_directory, choice.reference);
  if (!found.has_value()) return std::unexpected(found.error());
  return OpenSession(std::move(*found));
}

LostCounts LostEvents(const OpenedSession& session, const analysis::CaptureLoss& loss) {
  // Events and metadata tell of the same losses; while a session is open only the events do, and an event
  // that tells of a loss may itself be lost.
  uint64_t in_metadata = 0;
  for (const auto& [kind, count] : session.stored.metadata.dropped_counts) in_metadata += count;
  return {std::max(in_metadata, loss.dropped_count),
          std::max(session.stored.metadata.storage_lost_count, loss.storage_lost_count),
          session.stored.metadata.trimmed_event_count};
}

std::string TrimmedText(const OpenedSession& session) {
  const session::Metadata& metadata = session.stored.metadata;
  if (metadata.trimmed_event_count == 0 && metadata.trimmed_files == 0) return {};
  return fmt::format("{} of the middle were deleted to keep the session below {} (--max-size)",
                     FormatCounted(metadata.trimmed_event_count, "event"),
                     metadata.max_size_bytes != 0 ? FormatBytes(metadata.max_size_bytes) : "its limit");
}

std::string ReasonText(const session::Metadata& metadata) {
  if (metadata.triggers.empty()) return {};
  const session::TriggerNote& first = metadata.triggers.front();
  const std::string text = first.trigger_class == "request" || first.text.empty()
                               ? ShortReason(metadata)
                               : first.trigger_class + ": " + first.text;
  const uint64_t more = std::max<uint64_t>(metadata.trigger_count, 1) - 1;
  return more == 0 ? text : fmt::format("{}; and {}", text, FormatCounted(more, "more incident"));
}

std::string ShortReason(const session::Metadata& metadata) {
  if (metadata.triggers.empty()) return {};
  const session::TriggerNote& first = metadata.triggers.front();
  return first.trigger_class == "request" && !first.text.empty() ? first.text : first.trigger_class;
}

std::string ExitText(const session::Metadata& metadata) {
  const char* const core = metadata.core_dumped ? " (core dumped)" : "";
  if (metadata.term_signal) return SignalName(*metadata.term_signal) + core;
  if (metadata.exit_code) return fmt::format("exit {}{}", *metadata.exit_code, core);
  return {};
}

std::string CommandText(const session::Metadata& metadata) {
  if (metadata.argv.empty()) {
    if (metadata.kind == session::SessionKind::kAmbient) return "(ambient)";
    return metadata.kind == session::SessionKind::kPostMortem ? "(post-mortem)" : "";
  }
  std::string text;
  for (const std::string& argument : metadata.argv) text += (text.empty() ? "" : " ") + Quoted(argument);
  return text;
}

}  // namespace smeltr::faces
