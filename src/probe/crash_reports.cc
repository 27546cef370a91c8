#include "probe/crash_reports.h"

#include <errno.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>
#include <variant>

#include "crash/apple_report.h"
#include "crash/core_notes.h"
#include "crash/scan.h"
#include "probe/emit.h"
#include "probe/file_times.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::probe {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxAppleBytes = size_t{32} << 20;
// What matters in apport's reports comes before the core dump.
constexpr size_t kApportHeadBytes = size_t{1} << 20;
constexpr size_t kAbrtFileBytes = 4096;

// The first bytes of a regular file; fewer when it is shorter, none when it cannot be read.
std::string ReadHead(const fs::path& path, size_t max_bytes) {
  const auto fd = OpenRegularFile(path);
  std::string head;
  if (!fd.has_value()) return head;
  head.resize(max_bytes);
  size_t size = 0;
  while (size < max_bytes) {
    const ssize_t count = ::read(fd->get(), head.data() + size, max_bytes - size);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    size += static_cast<size_t>(count);
  }
  head.resize(size);
  return head;
}

std::string NameOfPath(std::string_view path) {
  const size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

std::string SignalText(uint32_t signal) {
  return signal == 0 || signal > 64 ? std::string() : SignalName(static_cast<int>(signal));
}

std::string KilledBy(std::string_view who, std::string_view signal) {
  if (signal.empty()) return fmt::format("{} crashed", who);
  return fmt::format("{} killed by {}", who, signal);
}

std::string AbrtField(const fs::path& directory, const char* name) {
  return std::string(crash::Trim(ReadHead(directory / name, kAbrtFileBytes)));
}

bool Accepts(const ReportSource& source, std::string_view name) {
  switch (source.kind) {
    case ReportKind::kApple:
      return name.ends_with(".ips") && !name.starts_with('.');
    case ReportKind::kSystemd:
      return crash::ParseSystemdCoreName(name).has_value();
    case ReportKind::kApport:
      return name.ends_with(".crash");
    case ReportKind::kAbrt:
      return name.starts_with("ccpp-") && !name.ends_with(".new");
    case ReportKind::kCore:
      return crash::MatchCoreName(source.pattern, source.core_uses_pid, name).has_value();
  }
  return false;
}

bool SameSource(const ReportSource& a, const ReportSource& b) {
  return a.directory == b.directory && a.kind == b.kind && a.pattern.text == b.pattern.text &&
         a.core_uses_pid == b.core_uses_pid;
}

}  // namespace

bool IncidentMemory::Remember(const std::string& incident) {
  if (!known_.insert(incident).second) return false;
  order_.push_back(incident);
  if (order_.size() > kMax) {
    known_.erase(order_.front());
    order_.pop_front();
  }
  return true;
}

CrashReports::CrashReports(uint64_t not_before_unix_ns, Attribute attribute)
    : not_before_unix_ns_(not_before_unix_ns), attribute_(std::move(attribute)) {}

void CrashReports::SetSources(const std::vector<ReportSource>& sources) {
  std::vector<std::unique_ptr<Watched>> next;
  next.reserve(sources.size());
  for (const ReportSource& source : sources) {
    const auto entries = source.kind == ReportKind::kAbrt ? ReportDirectory::Entries::kDirectories
                                                          : ReportDirectory::Entries::kFiles;
    const auto same = std::ranges::find_if(watched_, [&](const auto& watched) {
      return watched != nullptr && SameSource(watched->source, source);
    });
    if (same != watched_.end()) {
      next.push_back(std::move(*same));
    } else {
      next.push_back(std::make_unique<Watched>(Watched{
          .source = source, .directory = ReportDirectory(source.directory, entries, not_before_unix_ns_)}));
    }
  }
  watched_ = std::move(next);
}

void CrashReports::Scan(uint64_t now_ns, uint64_t wall_now_ns, Sink& sink) {
  sink_ = &sink;
  now_ns_ = now_ns;
  for (const auto& watched : watched_) {
    const ReportSource& source = watched->source;
    // One that is not there yet may come.
    [[maybe_unused]] const bool readable = watched->directory.Scan(
        wall_now_ns, [&](std::string_view name) { return Accepts(source, name); },
        [&](const fs::path& file) { return ReadReport(source, file); });
  }
  sink_ = nullptr;
}

bool CrashReports::ReadReport(const ReportSource& source, const fs::path& file) {
  switch (source.kind) {
    case ReportKind::kApple:
      return ReadApple(file);
    case ReportKind::kSystemd:
      return ReadSystemd(file);
    case ReportKind::kApport:
      return ReadApport(file);
    case ReportKind::kAbrt:
      return ReadAbrt(file);
    case ReportKind::kCore:
      return ReadCore(source, file);
  }
  return true;
}

bool CrashReports::ReadApple(const fs::path& file) {
  const auto text = ReadFile(file, kMaxAppleBytes);
  if (!text.has_value()) return false;
  const auto report = crash::ParseAppleReport(*text);
  if (!report.has_value()) return false;
  const std::string incident = report->incident_id.empty() ? file.native() : report->incident_id;
  if (const auto* crash = std::get_if<crash::AppleCrash>(&report->body)) {
    Emit(file, {.incident = incident,
                .pid = crash->pid,
                .process_name = crash->process_name,
                .signal = crash->signal,
                .summary = crash->summary,
                .unix_ns = report->report_unix_ns,
                .codes = crash->exception_codes,
                .frames = crash->frames});
  } else if (const auto* jetsam = std::get_if<crash::AppleJetsam>(&report->body)) {
    if (!incidents_.Remember(incident)) return true;
    for (const crash::JetsamVictim& victim : jetsam->victims) {
      event::JetsamKill kill;
      kill.path = std::string_view(file.native());
      kill.killed_pid = victim.pid;
      kill.killed_name = std::string_view(victim.process_name);
      kill.footprint_bytes = victim.footprint_bytes;
      kill.lifetime_max_bytes = victim.lifetime_max_bytes;
      kill.page_size_bytes = jetsam->page_size_bytes;
      kill.reason = std::string_view(victim.reason);
      sink_->Emit(MakeEvent(now_ns_, victim.pid, kill));
    }
  }
  return true;
}

bool CrashReports::ReadSystemd(const fs::path& file) {
  const std::string name = file.filename().native();
  const auto core = crash::ParseSystemdCoreName(name);
  if (!core.has_value()) return true;
  const std::string executable = attribute_(file, "user.coredump.exe");
  const std::string signal =
      SignalText(crash::WholeNumber<uint32_t>(attribute_(file, "user.coredump.signal")).value_or(0));
  Emit(file, {.incident = name,
              .pid = core->pid,
              .process_name = core->comm,
              .signal = signal,
              .summary = KilledBy(executable.empty() ? core->comm : executable, signal),
              .unix_ns = core->unix_ns,
              .codes = {},
              .frames = {}});
  return true;
}

bool CrashReports::ReadApport(const fs::path& file) {
  const auto report = crash::ParseApportReport(ReadHead(file, kApportHeadBytes));
  if (!report.has_value()) return report.error().code() == ErrorCode::kUnsupported;
  const std::string signal = SignalText(report->signal);
  // The next crash of the program has the same file.
  Emit(file, {.incident = fmt::format("{}:{}:{}", file.native(), report->pid, report->unix_ns),
              .pid = report->pid,
              .process_name = report->process_name,
              .signal = signal,
              .summary = KilledBy(report->summary, signal),
              .unix_ns = report->unix_ns,
              .codes = {},
              .frames = report->frames});
  return true;
}

bool CrashReports::ReadAbrt(const fs::path& directory) {
  const auto pid = crash::WholeNumber<uint32_t>(AbrtField(directory, "pid"));
  const auto seconds = crash::WholeNumber<uint32_t>(AbrtField(directory, "time"));
  const std::string executable = AbrtField(directory, "executable");
  if (!pid.has_value() || !seconds.has_value() || executable.empty()) return false;
  const std::string reason = AbrtField(directory, "reason");
  std::string signal(crash::Before(crash::After(reason, "killed by "), " "));
  if (!signal.starts_with("SIG")) signal.clear();
  Emit(directory, {.incident = directory.native(),
                   .pid = *pid,
                   .process_name = NameOfPath(executable),
                   .signal = signal,
                   .summary = reason.empty() ? KilledBy(executable, signal) : reason,
                   .unix_ns = uint64_t{*seconds} * 1'000'000'000,
                   .codes = {},
                   .frames = {}});
  return true;
}

bool CrashReports::ReadCore(const ReportSource& source, const fs::path& file) {
  auto core = crash::MatchCoreName(source.pattern, source.core_uses_pid, file.filename().native());
  if (!core.has_value()) return true;
  const std::string head = ReadHead(file, crash::kCoreHeadBytes);
  const auto notes = crash::ReadCoreNotes(std::as_bytes(std::span(head)));
  // The kernel writes the notes first. A file of the right name may well be none of its.
  if (!notes.has_value()) return false;
  if (core->pid == 0) core->pid = notes->pid;
  const std::string signal = SignalText(notes->signal != 0 ? notes->signal : core->signal);
  const std::string& name = notes->comm.empty() ? core->comm : notes->comm;
  Crash crash{.incident = {},
              .pid = core->pid,
              .process_name = name,
              .signal = signal,
              .summary = KilledBy(notes->command_line.empty() ? name : notes->command_line, signal),
              .unix_ns = core->unix_ns,
              .codes = {notes->signal_code, static_cast<int64_t>(notes->address)},
              .frames = {}};
  struct stat status{};
  if (crash.unix_ns == 0 && ::stat(file.c_str(), &status) == 0) crash.unix_ns = ChangedUnixNs(status);
  // While it is being written its time changes; who died where does not. A plain "core" is overwritten by the
  // next process, whose pid is another.
  crash.incident = fmt::format("{}:{}", file.native(), crash.pid);
  Emit(file, crash);
  return true;
}

void CrashReports::Emit(const fs::path& path, const Crash& crash) {
  if (!incidents_.Remember(crash.incident)) return;
  const std::vector<event::Text> frames(crash.frames.begin(), crash.frames.end());
  event::CrashReportEmitted report;
  report.path = std::string_view(path.native());
  report.crashed_pid = crash.pid;
  report.signal = std::string_view(crash.signal);
  report.exception_codes = crash.codes;
  report.summary = std::string_view(crash.summary);
  report.process_name = std::string_view(crash.process_name);
  report.report_unix_ns = crash.unix_ns;
  report.frames = frames;
  sink_->Emit(MakeEvent(now_ns_, crash.pid, report));
}

}  // namespace smeltr::probe
