#include "session/import_trace.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "session/identity.h"
#include "session/import_sorter.h"
#include "session/import_trace_collect.h"
#include "session/import_trace_events.h"
#include "session/import_trace_reader.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

namespace fs = std::filesystem;

constexpr size_t kReadBytes = size_t{1} << 20;
// Times of our sessions are never 0; those of JAX's traces begin there.
constexpr int64_t kFirstNs = 1'000'000'000;
// Unix times: from 2001 to 2200.
constexpr int64_t kEarliestUnixNs = 1'000'000'000'000'000'000;
constexpr int64_t kLatestUnixNs = 7'258'118'400'000'000'000;

struct FreeState {
  void operator()(XXH3_state_t* state) const { XXH3_freeState(state); }
};

Result<std::string> IdOfContent(const fs::path& file) {
  SMELTR_ASSIGN_OR_RETURN(const Fd fd, OpenRegularFile(file));
  const std::unique_ptr<XXH3_state_t, FreeState> state(XXH3_createState());
  XXH3_128bits_reset(state.get());
  std::vector<std::byte> bytes(kReadBytes);
  while (true) {
    const ssize_t got = ::read(fd.get(), bytes.data(), bytes.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return std::unexpected(SystemError("read", file, errno));
    if (got == 0) break;
    XXH3_128bits_update(state.get(), bytes.data(), static_cast<size_t>(got));
  }
  const XXH128_hash_t hash = XXH3_128bits_digest(state.get());
  return UuidOfHash(hash.high64, hash.low64);
}

// Of the trace's first moment.
uint64_t StartOf(const TraceFacts& facts, const fs::path& file) {
  const bool plausible_base = facts.base_unix_ns >= kEarliestUnixNs && facts.base_unix_ns <= kLatestUnixNs;
  if (plausible_base && facts.first_ns >= 0 && facts.first_ns <= kLatestUnixNs - facts.base_unix_ns) {
    return static_cast<uint64_t>(facts.base_unix_ns + facts.first_ns);
  }
  if (facts.first_ns >= kEarliestUnixNs) return static_cast<uint64_t>(facts.first_ns);
  // Then it was written when it was done.
  struct stat status{};
  if (::stat(file.c_str(), &status) != 0 || status.st_mtime < 0) return WallNowNs();
  const uint64_t written_ns = static_cast<uint64_t>(status.st_mtime) * kNsPerSecond;
  return written_ns - std::min(written_ns, static_cast<uint64_t>(facts.last_ns - facts.first_ns));
}

std::string NameFor(const fs::path& file, const std::string& given, ImportNotes& notes) {
  std::string stem = file.filename().native();
  for (const std::string_view ending : {".json", ".trace", ".pt"}) {
    if (stem.ends_with(ending) && stem.size() > ending.size()) stem.erase(stem.size() - ending.size());
  }
  const Result<std::string> name = ValidateName(given.empty() ? stem : given);
  if (!name.has_value()) notes.Add(fmt::format("it has no name: {}", name.error().text()));
  return name.value_or(std::string());
}

void NoteFacts(const TraceFacts& facts, ImportNotes& notes) {
  if (!facts.ranks.empty()) notes.Add("one process of a distributed run: " + facts.ranks);
  for (const auto& [what, count] : facts.left_out) {
    notes.Add(fmt::format("left out: {} {}", FormatCount(count), what));
  }
}

Metadata MetadataOf(const TraceFacts& facts, const fs::path& file, int64_t shift_ns) {
  Metadata metadata;
  const uint64_t start_unix_ns = StartOf(facts, file);
  metadata.started_rfc3339 = FormatUtc(start_unix_ns);
  metadata.ended_rfc3339 = FormatUtc(start_unix_ns + static_cast<uint64_t>(facts.last_ns - facts.first_ns));
  metadata.start_mono_ns = static_cast<uint64_t>(facts.first_ns + shift_ns);
  metadata.root_pid = facts.host_pid;
  const auto process = facts.process_names.find(facts.host_pid);
  if (process != facts.process_names.end() && !process->second.starts_with('/')) {
    metadata.argv = {process->second};
  }
  metadata.imported_format = facts.Format();
  std::error_code ignored;
  metadata.imported_from = fs::absolute(file, ignored).native();
  return metadata;
}

}  // namespace

Result<ImportedSession> ImportTrace(const fs::path& file, const std::string& given_name,
                                    const ImportOptions& options) {
  SMELTR_ASSIGN_OR_RETURN(const std::string session_id, IdOfContent(file));
  SMELTR_ASSIGN_OR_RETURN(std::optional<StoredSession> existing,
                          FindImported(options.sessions_directory, session_id));
  if (existing && !options.force) {
    return ImportedSession{.outcome = ImportOutcome::kAlreadyThere, .stored = std::move(*existing)};
  }
  SMELTR_ASSIGN_OR_RETURN(ImportTarget target, ImportTarget::Begin(options.sessions_directory, {}));
  ImportNotes notes;
  ImportSorter sorter(target.ScratchDirectory());
  TraceCollector collector(sorter);
  SMELTR_TRY(
      ReadTrace(file, {.notes = &notes,
                       .progress = options.progress,
                       .on_event = [&](const TraceEvent& event) { collector.OnEvent(event); },
                       .on_property = [&](std::string_view key,
                                          const JsonValue& value) { collector.OnProperty(key, value); }}));
  SMELTR_TRY(collector.status());
  if (collector.record_count() == 0) {
    return Fail(ErrorCode::kCorrupt,
                fmt::format("{} has no trace events: is it a Chrome trace?", file.native()));
  }

  const TraceFacts& facts = collector.facts();
  const int64_t shift_ns = std::max<int64_t>(kFirstNs - facts.first_ns, 0);
  TraceEvents events(facts, shift_ns, target.writer());
  std::vector<event::Attribute> attributes;
  SMELTR_TRY(sorter.ForEach([&](const SortKey&, std::span<const std::byte> bytes) {
    TraceRecord record;
    if (DecodeRecord(bytes, attributes, record)) events.Add(record);
  }));
  events.Finish(notes);
  NoteFacts(facts, notes);

  Metadata metadata = MetadataOf(facts, file, shift_ns);
  metadata.session_id = session_id;
  metadata.name = NameFor(file, given_name, notes);
  metadata.smeltr_version = options.smeltr_version;
  metadata.end_reason = "imported";
  metadata.import_notes = notes.Lines();
  ImportedSession done{.outcome = existing ? ImportOutcome::kReplaced : ImportOutcome::kImported,
                       .event_count = target.writer().totals().event_count,
                       .notes = notes.Lines(),
                       .lossy = notes.lossy()};
  SMELTR_ASSIGN_OR_RETURN(done.stored, target.Finish(std::move(metadata), existing));
  return done;
}

}  // namespace smeltr::session
