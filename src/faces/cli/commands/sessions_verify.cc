// `smeltr sessions verify|repair`: whether what is on disk can be trusted, and what to do where it cannot.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "faces/cli/command.h"
#include "faces/cli/commands/sessions.h"
#include "faces/cli/console.h"
#include "faces/cli/progress.h"
#include "faces/cli/table.h"
#include "faces/opened_session.h"
#include "faces/trust_json.h"
#include "session/repair.h"
#include "session/verify.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

namespace fs = std::filesystem;

constexpr size_t kLabelWidth = 11;
constexpr size_t kFaultsShown = 20;
constexpr size_t kKindsShown = 4;

// A session by reference, or by where it is: names have no slash.
struct Place {
  fs::path directory;
  fs::path file;       // Set: only this events file, which need not be a session's.
  std::string called;  // As the user would give it to another command.
};

Result<Place> FindPlace(const std::string& reference, bool last) {
  const bool is_path = reference.find('/') != std::string::npos || reference.ends_with(".smlt") ||
                       reference == "." || reference == "..";
  if (last || !is_path) {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(const OpenedSession opened,
                            ChooseSession(paths.sessions, {.reference = reference, .last = last}));
    const std::string id = opened.stored.short_id();
    const fs::path& directory = opened.stored.directory;
    return Place{directory, {}, id.empty() ? directory.filename().native() : id};
  }
  std::error_code error;
  fs::path path = fs::absolute(reference, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (fs::is_regular_file(path, error)) return Place{path.parent_path(), path, reference};
  return Place{path, {}, reference};
}

// A file alone, in the shape of a session without metadata.
Result<session::VerifiedSession> Verify(const Place& place, const session::Progress& progress) {
  if (place.file.empty()) return session::VerifySession(place.directory, progress);
  SMELTR_ASSIGN_OR_RETURN(session::VerifiedFile file, session::VerifyFile(place.file, false, progress));
  session::VerifiedSession session{.directory = place.directory};
  session.faults = file.faults;
  session.fault_count = file.fault_count;
  if (!file.has_index && file.fault_count == 0) {
    session.notes.push_back(file.name + " has no index: it is still being written, or was cut off");
  }
  session.files.push_back(std::move(file));
  return session;
}

std::string KindsText(const std::map<std::string, uint64_t>& lost_by_kind) {
  std::vector<std::pair<uint64_t, std::string>> kinds;
  kinds.reserve(lost_by_kind.size());
  for (const auto& [kind, count] : lost_by_kind) kinds.emplace_back(count, kind);
  std::ranges::sort(kinds, std::greater());
  std::string text;
  for (size_t i = 0; i < std::min(kinds.size(), kKindsShown); ++i) {
    text += fmt::format("{}{} {}", i == 0 ? "" : ", ", FormatCount(kinds[i].first), kinds[i].second);
  }
  if (kinds.size() > kKindsShown) text += " and others";
  return text;
}

class Page {
 public:
  Page(const session::VerifiedSession& session, const Place& place, Console& console)
      : session_(session), place_(place), console_(console) {}

  void Print() {
    Line("Session", Printable(place_.file.empty() ? session_.directory.native() : place_.file.native()));
    Line("Checked", Checked());
    Line("Result", ResultText());
    for (const std::string& note : session_.notes) Line("Note", Printable(note));
    Faults();
    if (!session_.sound() && place_.file.empty()) {
      console_.Print(fmt::format("\n`smeltr sessions repair {}` writes a copy without the damage.\n",
                                 Printable(place_.called)));
    } else if (session_.unfinished() && place_.file.empty()) {
      console_.Print(fmt::format("\n`smeltr sessions repair {}` writes a copy with an index.\n",
                                 Printable(place_.called)));
    }
  }

 private:
  void Line(std::string_view label, std::string_view text) {
    console_.Print(Labelled(label, kLabelWidth, text, console_.style()));
  }

  std::string Checked() const {
    uint64_t bytes = 0;
    uint64_t chunks = 0;
    for (const session::VerifiedFile& file : session_.files) {
      bytes += file.file_bytes;
      chunks += file.chunk_count;
    }
    return fmt::format("{}, {}, {}, {}", FormatCounted(session_.files.size(), "file"),
                       FormatCounted(chunks, "chunk"), FormatCounted(session_.event_count(), "event"),
                       FormatBytes(bytes));
  }

  std::string ResultText() const {
    if (session_.sound()) {
      return session_.still_written ? "sound so far: every checksum holds, every column decodes"
                                    : "sound: every checksum holds, every column decodes, the counts agree";
    }
    std::string text = "damaged in " + FormatCounted(session_.fault_count, "place");
    const uint64_t lost = session_.lost_events();
    if (!session_.loss_known()) {
      return text + (lost == 0 ? "; how many events are lost is not known"
                               : fmt::format("; {} lost at least", FormatCounted(lost, "event")));
    }
    return text + (lost == 0 ? "; no event is lost" : fmt::format("; {} lost", FormatCounted(lost, "event")));
  }

  void Faults() {
    const size_t shown = std::min(session_.faults.size(), kFaultsShown);
    for (size_t i = 0; i < shown; ++i) {
      const session::Fault& fault = session_.faults[i];
      console_.Print("\n");
      const bool placed = fault.bytes != 0;
      Line("Damage", Printable(placed               ? fmt::format("{} at byte {}, {}", fault.file,
                                                                  FormatCount(fault.offset), FormatBytes(fault.bytes))
                               : fault.file.empty() ? std::string("the session")
                                                    : fault.file));
      Line("", Printable(fault.text));
      Line("Cost", Cost(fault));
    }
    if (session_.fault_count > shown) {
      console_.Print(
          fmt::format("\nand {} more places; --json has them\n", FormatCount(session_.fault_count - shown)));
    }
  }

  std::string Cost(const session::Fault& fault) const {
    if (!fault.lost_events) return "not known; what is around it was read";
    if (*fault.lost_events == 0) return "no event";
    std::string text = FormatCounted(*fault.lost_events, "event");
    if (const std::string kinds = KindsText(fault.lost_by_kind); !kinds.empty())
      text += ": " + Printable(kinds);
    if (fault.begin_ns != 0 || fault.end_ns != 0) {
      text += fmt::format(", within {}", FormatDuration(fault.end_ns - fault.begin_ns));
    }
    return text;
  }

  const session::VerifiedSession& session_;
  const Place& place_;
  Console& console_;
};

class SessionsVerify final : public Command {
 public:
  CLI::App* AddTo(CLI::App& sessions) override {
    CLI::App* const app = sessions.add_subcommand("verify", "Read all of a session and say what is damaged");
    app->add_option("REF", reference_, "Session: id or name; or the path of its directory or events file");
    app->add_flag("--last", last_, "The newest recording");
    app->add_flag("--json", json_, "Print JSON");
    app->footer(
        "Examples:\n  smeltr sessions verify --last\n  smeltr sessions verify ./copied/events.smlt --json\n"
        "Exits with 0 when the session is sound and 1 when it is damaged.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Place place, FindPlace(reference_, last_));
    ProgressLine line("verifying");
    auto verified = Verify(place, [&](uint64_t done, uint64_t total) { line.Update(done, total); });
    line.Clear();
    if (!verified.has_value()) return std::unexpected(verified.error());
    if (json_) {
      console.Print(VerifiedJson(*verified));
    } else {
      Page(*verified, place, console).Print();
    }
    return verified->sound() ? kExitOk : kExitFailed;
  }

 private:
  std::string reference_;
  bool last_ = false;
  bool json_ = false;
};

class SessionsRepair final : public Command {
 public:
  CLI::App* AddTo(CLI::App& sessions) override {
    CLI::App* const app =
        sessions.add_subcommand("repair", "Write a copy of a session without what is damaged in it");
    app->add_option("REF", reference_, "Session: id or name; or the path of its directory");
    app->add_flag("--last", last_, "The newest recording");
    auto* const output = app->add_option("--output", output_, "Where the copy goes; else beside the session");
    output->type_name("DIR");
    app->add_flag("--in-place", in_place_, "Replace the session's own files, once the new ones are verified")
        ->excludes(output);
    app->add_flag("--json", json_, "Print JSON");
    app->footer(
        "Examples:\n  smeltr sessions repair 3f2a9c1d\n"
        "  smeltr sessions repair baseline --output /tmp/baseline\n"
        "  smeltr sessions repair --last --in-place\n"
        "The original stays as it is, unless --in-place is given. The copy has an id of its own.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Place place, FindPlace(reference_, last_));
    if (!place.file.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "repair takes a session's directory, not one of its files");
    }
    ProgressLine line("verifying");
    const auto progress = [&](uint64_t done, uint64_t total) { line.Update(done, total); };
    auto before = session::VerifySession(place.directory, progress);
    if (before.has_value() && before->sound() && !before->unfinished() && output_.empty()) {
      line.Clear();
      return NothingToDo(std::move(*before), console);
    }
    line.Clear();
    if (!before.has_value()) return std::unexpected(before.error());
    SMELTR_ASSIGN_OR_RETURN(const session::RepairedSession repaired, Repair(std::move(*before)));
    if (json_) {
      console.Print(RepairedJson(repaired, true));
    } else {
      Print(repaired, console);
    }
    return kExitOk;
  }

 private:
  Result<session::RepairedSession> Repair(session::VerifiedSession before) const {
    if (in_place_) return session::RepairInPlace(std::move(before));
    std::error_code error;
    fs::path output = output_.empty() ? fs::path() : fs::absolute(output_, error).lexically_normal();
    if (!output.empty() && !output.has_filename()) output = output.parent_path();
    return session::RepairCopy(std::move(before), output);
  }

  int NothingToDo(session::VerifiedSession before, Console& console) const {
    if (json_) {
      console.Print(RepairedJson({.before = std::move(before)}, false));
    } else {
      console.Print(before.still_written ? "nothing to repair so far; it is still being recorded\n"
                                         : "nothing to repair: the session is sound\n");
    }
    return kExitOk;
  }

  void Print(const session::RepairedSession& repaired, Console& console) const {
    const auto line = [&](std::string_view label, std::string_view text) {
      console.Print(Labelled(label, kLabelWidth, text, console.style()));
    };
    line("Repaired", Printable(repaired.directory.native()));
    line("Session", repaired.session_id.substr(0, 8));
    line("Kept", FormatCounted(repaired.event_count, "event"));
    line("Lost", repaired.lost_events == 0 && !repaired.before.loss_known()
                     ? "not known"
                     : FormatCounted(repaired.lost_events, "event"));
    if (!in_place_) console.Print("\nThe original is as it was. The copy was verified.\n");
  }

  std::string reference_;
  std::string output_;
  bool last_ = false;
  bool in_place_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionsVerify() { return std::make_unique<SessionsVerify>(); }
std::unique_ptr<Command> MakeSessionsRepair() { return std::make_unique<SessionsRepair>(); }

}  // namespace smeltr::faces::cli
