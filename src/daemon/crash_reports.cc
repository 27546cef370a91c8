#include "daemon/crash_reports.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "daemon/crash_guard.h"
#include "daemon/post_mortem.h"
#include "session/identity.h"
#include "session/store.h"
#include "session/writer.h"
#include "util/file.h"
#include "util/format.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

constexpr size_t kMaxReportBytes = size_t{64} << 10;
constexpr size_t kMaxReports = 16;
constexpr std::string_view kLabel = "daemon-panic";

// The rest of the line that begins with `key`.
std::string ValueOf(std::string_view report, std::string_view key) {
  size_t at = report.find(fmt::format("\n{} ", key));
  if (at == std::string_view::npos) return {};
  at += key.size() + 2;
  return Printable(Truncate(report.substr(at, report.find('\n', at) - at), 200));
}

std::string ReasonOf(std::string_view report) {
  const std::string reason = ValueOf(report, "reason");
  return fmt::format("smeltrd crashed: {}{}{}", ValueOf(report, "signal"), reason.empty() ? "" : ", ",
                     reason);
}

std::vector<session::StoredSession> LeftOpen(const std::filesystem::path& sessions_directory) {
  auto sessions = session::ListSessions(sessions_directory);
  if (!sessions.has_value()) return {};
  std::erase_if(*sessions, [](const session::StoredSession& session) {
    return !session.metadata_readable || session.metadata.kind == session::SessionKind::kPostMortem ||
           !session.metadata.ended_rfc3339.empty();
  });
  return std::move(*sessions);
}

Result<uint64_t> WriteEvents(const std::filesystem::path& file, const event::PostMortemFlushed& flushed) {
  SMELTR_ASSIGN_OR_RETURN(auto writer, session::Writer::Create(file, {}));
  writer.Append({{.ts_ns = MonotonicNowNs()}, flushed});
  SMELTR_TRY(writer.Close());
  return writer.totals().file_bytes;
}

// Fills the directory; the metadata last, with the end in it.
Result<void> Fill(session::StoredSession& stored, std::string_view report, WrittenDump& dump) {
  SMELTR_TRY(WriteFileAtomically(stored.directory / kPanicReportFile, report, 0600, FileSync::kDisk));
  SMELTR_ASSIGN_OR_RETURN(dump.file_bytes,
                          WriteEvents(stored.directory / session::kEventsFile, MakeFlushedEvent(dump)));
  stored.metadata.ended_rfc3339 = session::FormatUtc(WallNowNs());
  stored.metadata.end_reason = "post-mortem";
  stored.metadata.event_counts = {{"PostMortemFlushed", 1}};
  return session::WriteMetadata(stored.directory, stored.metadata);
}

session::Metadata MetadataOf(std::string_view report, const std::vector<session::StoredSession>& open) {
  session::Metadata metadata;
  for (const session::StoredSession& session : open) {
    metadata.related_sessions.push_back(session.metadata.session_id);
  }
  if (open.size() == 1) metadata.source_session_id = metadata.related_sessions.front();
  metadata.argv = {"smeltrd"};
  metadata.smeltr_version = ValueOf(report, "version");
  metadata.triggers = {{.trigger_class = std::string(kLabel), .text = ReasonOf(report), .ts_ns = 0}};
  metadata.trigger_count = 1;
  return metadata;
}

Result<WrittenDump> MakePostMortem(const std::filesystem::path& sessions_directory, std::string_view report,
                                   const std::vector<session::StoredSession>& open) {
  SMELTR_ASSIGN_OR_RETURN(session::StoredSession stored,
                          session::CreatePostMortem(sessions_directory, kLabel, MetadataOf(report, open)));
  WrittenDump dump{.source_session = stored.metadata.source_session_id,
                   .session_id = stored.metadata.session_id,
                   .directory = stored.directory,
                   .reason = ReasonOf(report),
                   .event_count = 1,
                   .trigger_count = 1};
  if (const auto filled = Fill(stored, report, dump); !filled.has_value()) {
    std::error_code ignored;
    std::filesystem::remove_all(stored.directory, ignored);
    return std::unexpected(filled.error());
  }
  return dump;
}

bool IsReportName(std::string_view name) {
  constexpr std::string_view kPrefix = "crash-";
  constexpr std::string_view kSuffix = ".txt";
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return false;
  const std::string_view digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  return !digits.empty() && std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
}

std::vector<std::filesystem::path> FindReports(const std::filesystem::path& run_directory) {
  std::vector<std::filesystem::path> reports;
  const std::string own = fmt::format("crash-{}.txt", ::getpid());
  std::error_code error;
  std::filesystem::directory_iterator entry(run_directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    if (IsReportName(name) && name != own && reports.size() < kMaxReports) reports.push_back(entry->path());
  }
  return reports;
}

// Nothing for a report that is none, or that has to wait for the next daemon.
std::optional<WrittenDump> Recover(const std::filesystem::path& file,
                                   const std::filesystem::path& sessions_directory,
                                   const std::vector<session::StoredSession>& open) {
  const Result<std::string> report = ReadFile(file, kMaxReportBytes);
  std::error_code ignored;
  if (!report.has_value() || !report->starts_with(kCrashReportTitle)) {
    std::filesystem::remove(file, ignored);
    return std::nullopt;
  }
  Result<WrittenDump> dump = MakePostMortem(sessions_directory, *report, open);
  if (!dump.has_value()) {
    Log(LogLevel::kError, fmt::format("{} stays for the next start: {}", file.native(), dump.error().text()));
    return std::nullopt;
  }
  std::filesystem::remove(file, ignored);
  Log(LogLevel::kWarning,
      fmt::format("an earlier smeltrd crashed: {} has its report", dump->directory.native()));
  return std::move(*dump);
}

}  // namespace

std::vector<WrittenDump> RecoverCrashReports(const std::filesystem::path& run_directory,
                                             const std::filesystem::path& sessions_directory) {
  std::vector<WrittenDump> dumps;
  const std::vector<std::filesystem::path> reports = FindReports(run_directory);
  if (reports.empty()) return dumps;
  std::vector<session::StoredSession> open = LeftOpen(sessions_directory);
  for (const std::filesystem::path& file : reports) {
    if (auto dump = Recover(file, sessions_directory, open)) dumps.push_back(std::move(*dump));
  }
  for (session::StoredSession& session : open) {
    for (const WrittenDump& dump : dumps) LinkDump(session.metadata, dump);
    if (dumps.empty()) continue;
    if (const auto saved = session::WriteMetadata(session.directory, session.metadata); !saved.has_value()) {
      Log(LogLevel::kWarning, saved.error().text());
    }
  }
  return dumps;
}

}  // namespace smeltr::daemon
