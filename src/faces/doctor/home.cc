// Where everything is kept. Declared in check.h.
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <set>
#include <system_error>

#include "faces/doctor/check.h"
#include "faces/opened_session.h"
#include "probe/probe.h"
#include "session/store.h"
#include "util/config.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::faces::doctor {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kScarceBytes = uint64_t{1} << 30;
constexpr uint64_t kNeededBytes = uint64_t{16} << 20;

Check Home(const Paths& paths) {
  Check check{.name = "home", .detail = paths.home.native(), .vital = true};
  if (const auto made = MakePrivateDirectory(paths.home); !made.has_value()) {
    check.verdict = Verdict::kFailed;
    check.detail = made.error().text();
    check.fix = "set SMELTR_HOME to a directory of yours";
    return check;
  }
  const fs::path probe = paths.home / fmt::format(".doctor-{}", ::getpid());
  const auto written = WriteFileAtomically(probe, "x", 0600, FileSync::kNone);
  ::unlink(probe.c_str());
  if (!written.has_value()) {
    check.verdict = Verdict::kFailed;
    check.detail = written.error().text();
    check.fix = "make room, or set SMELTR_HOME to a directory you can write";
    return check;
  }
  struct stat status{};
  if (::stat(paths.home.c_str(), &status) == 0 && (status.st_mode & 077U) != 0) {
    check.verdict = Verdict::kDegraded;
    check.detail += fmt::format(" can be read by others (mode {:o})", status.st_mode & 0777U);
    check.fix = fmt::format("chmod 700 {}", paths.home.native());
  }
  return check;
}

Check Space(const Paths& paths) {
  Check check{.name = "disk space"};
  std::error_code error;
  const fs::space_info space = fs::space(paths.home, error);
  if (error) {
    check.verdict = Verdict::kDegraded;
    check.detail = fmt::format("cannot be told: {}", error.message());
    return check;
  }
  check.detail = FormatBytes(space.available) + " free";
  check.vital = true;
  if (space.available < kScarceBytes) {
    check.verdict = space.available < kNeededBytes ? Verdict::kFailed : Verdict::kDegraded;
    check.fix = "`smeltr sessions prune`, or set SMELTR_HOME to a larger disk";
  }
  return check;
}

// Those of the reader, and names of probes that there are not.
std::vector<std::string> Warnings(const fs::path& file, const LoadedConfig& loaded) {
  std::vector<std::string> warnings = loaded.warnings;
  std::set<std::string> known;
  for (const auto& probe : probe::MakeAllProbes()) known.emplace(probe->name());
  const ProbeSettings& settings = loaded.config.probes;
  std::set<std::string> named(settings.off.begin(), settings.off.end());
  if (settings.only) named.insert(settings.only->begin(), settings.only->end());
  for (const std::string& name : named) {
    if (known.contains(name)) continue;
    warnings.push_back(fmt::format("{}: there is no probe '{}', but {}", file.native(),
                                   Printable(Truncate(name, 40)), fmt::join(known, ", ")));
  }
  return warnings;
}

Check Config(const Paths& paths) {
  Check check{.name = "config.toml"};
  const fs::path file = ConfigFile(paths.home);
  const auto loaded = LoadConfig(file);
  std::error_code ignored;
  if (!loaded.has_value()) {
    check.verdict = Verdict::kDegraded;
    check.detail = loaded.error().text();
    check.fix = "correct it; until then the defaults count";
  } else if (const std::vector<std::string> warnings = Warnings(file, *loaded); !warnings.empty()) {
    check.verdict = Verdict::kDegraded;
    check.detail = fmt::format("{}", fmt::join(warnings, "; "));
    check.fix = "correct or remove what is named";
  } else {
    check.detail = fs::exists(file, ignored) ? file.native() : "none: the defaults count";
  }
  return check;
}

Check Orphans(const Paths& paths) {
  Check check{.name = "cut-off sessions"};
  const auto stored = session::ListSessions(paths.sessions);
  if (!stored.has_value()) {
    check.verdict = Verdict::kDegraded;
    check.detail = stored.error().text();
    return check;
  }
  size_t cut_off = 0;
  size_t unreadable = 0;
  for (const session::StoredSession& one : *stored) {
    if (!one.metadata_readable) ++unreadable;
    if (one.metadata_readable && OpenSession(one).state == SessionState::kCutOff) ++cut_off;
  }
  const std::string all = FormatCounted(stored->size(), "session");
  check.detail = stored->empty() ? "none: there are no sessions" : fmt::format("none of {}", all);
  if (cut_off + unreadable == 0) return check;
  check.verdict = Verdict::kDegraded;
  check.detail = fmt::format("of {}, {} never closed, {} with unreadable metadata", all, cut_off, unreadable);
  check.fix = "the next smeltrd closes them: `smeltr daemon restart`";
  return check;
}

// Rings of recordings that no session is open for.
Check StaleRings(const Paths& paths) {
  Check check{.name = "stale rings"};
  std::set<std::string> open;
  for (const session::StoredSession& one :
       session::ListSessions(paths.sessions).value_or(std::vector<session::StoredSession>())) {
    if (one.metadata.ended_rfc3339.empty()) open.insert(one.metadata.session_id);
  }
  size_t stale = 0;
  for (const fs::path& base : RingBaseCandidates(paths)) {
    std::error_code error;
    for (fs::directory_iterator entry(base, error), end; !error && entry != end; entry.increment(error)) {
      std::error_code ignored;
      if (entry->is_directory(ignored) && !open.contains(entry->path().filename().native())) ++stale;
    }
  }
  check.detail =
      stale == 0 ? "none" : FormatCounted(stale, "ring directory", "ring directories") + " left over";
  if (stale > 0) {
    check.verdict = Verdict::kDegraded;
    check.fix = "the next smeltrd removes them: `smeltr daemon restart`";
  }
  return check;
}

}  // namespace

std::vector<Check> CheckHome(const Context& context) {
  const Paths& paths = context.paths;
  // That it is not too long is known: paths were resolved.
  Check socket{
      .name = "socket",
      .detail = fmt::format("{} ({} bytes of 107)", paths.socket.native(), paths.socket.native().size())};
  return {Home(paths), Space(paths), std::move(socket), Config(paths), Orphans(paths), StaleRings(paths)};
}

}  // namespace smeltr::faces::doctor
