#include "session/import_v1.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "session/identity.h"
#include "session/import_v1_events.h"
#include "session/import_v1_stream.h"
#include "util/file.h"
#include "util/format.h"
#include "util/paths.h"
#include "util/toml.h"

namespace smeltr::session {
namespace {

namespace fs = std::filesystem;

constexpr std::array<std::string_view, 2> kEventFiles = {"events.cbor.zst", "events.cbor"};
constexpr std::array<std::string_view, 2> kMetadataFiles = {"metadata.v1.toml", "metadata.toml"};
constexpr std::string_view kPostMortemPrefix = "post-mortem-";
constexpr size_t kMaxMetadataBytes = size_t{4} << 20;

// The event file in `directory`; empty when there is none.
fs::path EventFileIn(const fs::path& directory) {
  std::error_code ignored;
  for (const std::string_view name : kEventFiles) {
    if (fs::is_regular_file(directory / name, ignored)) return directory / name;
  }
  return {};
}

Result<void> AddSessionsIn(const fs::path& directory, V1Sessions& found) {
  std::error_code error;
  fs::directory_iterator entry(directory, error);
  for (const fs::directory_iterator end; !error && entry != end; entry.increment(error)) {
    std::error_code ignored;
    if (!entry->is_directory(ignored) || entry->path().filename().native().starts_with('.')) continue;
    if (!EventFileIn(entry->path()).empty()) {
      found.directories.push_back(entry->path());
    } else if (fs::exists(entry->path() / kEventsFile, ignored)) {
      ++found.own_count;
    }
  }
  if (error) return std::unexpected(SystemError("list", directory, error.value()));
  return {};
}

std::string DashedUuid(const std::string& digits) {
  return fmt::format("{}-{}-{}-{}-{}", digits.substr(0, 8), digits.substr(8, 4), digits.substr(12, 4),
                     digits.substr(16, 4), digits.substr(20));
}

std::optional<toml::table> LoadOldTable(const fs::path& directory, ImportNotes& notes) {
  for (const std::string_view name : kMetadataFiles) {
    const Result<std::string> text = ReadFile(directory / name, kMaxMetadataBytes);
    if (!text.has_value()) continue;
    toml::parse_result parsed = ParseToml(*text, name);
    if (parsed) return std::move(parsed).table();
    notes.AddLoss(fmt::format("{} is damaged (line {}): name, command and exit status are not known", name,
                              parsed.error().source().begin.line));
    return std::nullopt;
  }
  notes.AddLoss("metadata.toml is missing: name, command and exit status are not known");
  return std::nullopt;
}

std::vector<std::string> Strings(const toml::array* array) {
  std::vector<std::string> strings;
  if (array == nullptr) return strings;
  for (const toml::node& node : *array) {
    if (const auto text = node.value<std::string>()) strings.push_back(*text);
  }
  return strings;
}

std::string EndReason(const toml::table& table, const Metadata& metadata) {
  std::string reason = table["end_reason"].value_or(std::string());
  if (reason == "recovered-after-crash") return "recovered";
  if (!reason.empty()) return reason;
  if (metadata.term_signal) return "signal";
  return metadata.exit_code ? "exit" : "";
}

void FillFrom(const toml::table& table, Metadata& metadata, ImportNotes& notes) {
  const auto text = [&](std::string_view key) { return table[key].value_or(std::string()); };
  if (const auto id = NormaliseUuid(text("session_id"))) metadata.session_id = DashedUuid(*id);
  metadata.host = text("host");
  metadata.scope_token = text("scope_token");
  for (const auto& [key, instant] : {std::pair("started_rfc3339", &metadata.started_rfc3339),
                                     std::pair("ended_rfc3339", &metadata.ended_rfc3339)}) {
    if (const auto unix_ns = ParseInstant(text(key))) *instant = FormatUtc(*unix_ns);
  }
  const Result<std::string> name = ValidateName(text("name"));
  if (name.has_value()) {
    metadata.name = *name;
  } else {
    notes.Add(fmt::format("its name was left out: {}", name.error().text()));
  }
  // -1 stood for a death by signal.
  const int64_t exit_code = table["exit_code"].value_or(int64_t{-1});
  if (exit_code >= 0 && exit_code <= 255) metadata.exit_code = static_cast<int>(exit_code);
  const int64_t term_signal = table["term_signal"].value_or(int64_t{0});
  if (term_signal > 0 && term_signal < 128) metadata.term_signal = static_cast<int>(term_signal);
  // The other argv is the daemon's.
  metadata.argv = Strings(table["kind"]["argv"].as_array());
  const int64_t pid = table["kind"]["pid"].value_or(int64_t{0});
  if (std::in_range<uint32_t>(pid)) metadata.root_pid = static_cast<uint32_t>(pid);
  const bool scoped = table["kind"]["type"].value_or(std::string()) == "Scoped";
  metadata.kind = scoped ? SessionKind::kScoped : SessionKind::kAmbient;
  metadata.end_reason = EndReason(table, metadata);
  if (const std::string trace = text("gputrace_path"); !trace.empty()) {
    notes.Add(fmt::format("its GPU trace is not part of it: {}", Printable(trace)));
  }
}

// The id that the first readable event gives; empty when there is none.
std::string IdOfEvents(const fs::path& events) {
  std::string id;
  ImportNotes unused;
  const auto look = [&](std::span<const std::byte> cbor) {
    id = V1SessionId(cbor);
    return NormaliseUuid(id) ? V1Visit::kStop : V1Visit::kBad;
  };
  const auto read = ReadV1Stream(events, {.notes = &unused}, look);
  const auto digits = read.has_value() ? NormaliseUuid(id) : std::nullopt;
  return digits ? DashedUuid(*digits) : std::string();
}

// What can be known before the events are read.
Metadata OldMetadata(const fs::path& directory, const fs::path& events, ImportNotes& notes) {
  Metadata metadata;
  const std::string directory_name = directory.filename().native();
  const bool post_mortem = directory_name.starts_with(kPostMortemPrefix);
  if (const std::optional<toml::table> table = LoadOldTable(directory, notes)) {
    FillFrom(*table, metadata, notes);
  } else {
    if (!post_mortem) metadata.session_id = IdOfEvents(events);
    metadata.end_reason = "recovered";
  }
  if (post_mortem) metadata.kind = SessionKind::kPostMortem;
  // The events of a post-mortem keep the ids of their own sessions.
  if (metadata.session_id.empty()) {
    metadata.session_id = UuidOfHash(std::stoull(HashText("high" + directory_name), nullptr, 16),
                                     std::stoull(HashText("low" + directory_name), nullptr, 16));
  }
  if (metadata.started_rfc3339.empty()) metadata.started_rfc3339 = InstantOfDirectoryName(directory_name);
  return metadata;
}

bool IsInside(const fs::path& directory, const fs::path& sessions_directory) {
  std::error_code error;
  return fs::equivalent(directory.parent_path(), sessions_directory, error) && !error;
}

}  // namespace

Result<V1Sessions> FindV1Sessions(const fs::path& directory) {
  V1Sessions found;
  if (!EventFileIn(directory).empty()) {
    found.directories.push_back(directory);
    return found;
  }
  SMELTR_TRY(AddSessionsIn(directory, found));
  std::error_code ignored;
  if (found.directories.empty() && fs::is_directory(directory / "sessions", ignored)) {
    SMELTR_TRY(AddSessionsIn(directory / "sessions", found));
  }
  std::ranges::sort(found.directories);
  return found;
}

Result<ImportedSession> ImportV1Session(const fs::path& given, const ImportOptions& options) {
  // "dir/" has no file name.
  std::error_code error;
  const fs::path directory = fs::canonical(given, error);
  if (error) return std::unexpected(SystemError("open", given, error.value()));
  const fs::path events = EventFileIn(directory);
  if (events.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("{} has no events.cbor.zst", directory.native()));
  }
  ImportNotes notes;
  Metadata metadata = OldMetadata(directory, events, notes);
  SMELTR_ASSIGN_OR_RETURN(std::optional<StoredSession> existing,
                          FindImported(options.sessions_directory, metadata.session_id));
  if (existing && !options.force) {
    return ImportedSession{.outcome = ImportOutcome::kAlreadyThere, .stored = std::move(*existing)};
  }

  const bool in_place = IsInside(directory, options.sessions_directory);
  SMELTR_ASSIGN_OR_RETURN(ImportTarget target,
                          ImportTarget::Begin(options.sessions_directory, in_place ? directory : fs::path()));
  const V1Defaults defaults{.start_unix_ns = ParseInstant(metadata.started_rfc3339).value_or(0),
                            .root_pid = metadata.root_pid};
  V1Events translated(target.writer(), defaults);
  const auto add = [&](std::span<const std::byte> cbor) {
    return translated.Add(cbor) ? V1Visit::kGo : V1Visit::kBad;
  };
  SMELTR_ASSIGN_OR_RETURN(const V1StreamReport read,
                          ReadV1Stream(events, {.notes = &notes, .progress = options.progress}, add));
  translated.Finish(notes);

  metadata.start_mono_ns = translated.min_ts_ns();
  if (metadata.started_rfc3339.empty() && translated.min_ts_ns() != 0) {
    metadata.started_rfc3339 = FormatUtc(translated.min_ts_ns());
  }
  if (metadata.ended_rfc3339.empty() && translated.max_ts_ns() != 0) {
    metadata.ended_rfc3339 = FormatUtc(translated.max_ts_ns());
    if (metadata.end_reason.empty()) metadata.end_reason = "recovered";
  }
  metadata.imported_from = directory.native();
  metadata.imported_format = Name(read.layout);
  metadata.import_notes = notes.Lines();
  ImportedSession done{.outcome = existing ? ImportOutcome::kReplaced : ImportOutcome::kImported,
                       .event_count = target.writer().totals().event_count,
                       .opaque_count = translated.opaque_count(),
                       .notes = notes.Lines(),
                       .lossy = notes.lossy()};
  SMELTR_ASSIGN_OR_RETURN(done.stored, target.Finish(std::move(metadata), existing));
  return done;
}

}  // namespace smeltr::session
