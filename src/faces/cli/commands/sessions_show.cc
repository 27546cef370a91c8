// `smeltr sessions show`: what a session holds, how it ended and what was in flight.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>

#include "analysis/notices.h"
#include "analysis/overview.h"
#include "event/names.h"
#include "faces/answer_json.h"
#include "faces/cli/command.h"
#include "faces/cli/commands/sessions.h"
#include "faces/cli/console.h"
#include "faces/cli/session_text.h"
#include "faces/cli/table.h"
#include "faces/listed_session.h"
#include "faces/opened_session.h"
#include "faces/session_notes.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

constexpr size_t kLabelWidth = 11;
constexpr size_t kInFlightShown = 20;
constexpr size_t kFailuresShown = 10;
constexpr size_t kCrashLinesShown = 10;
constexpr size_t kMarksShown = 20;

class Page {
 public:
  Page(const ListedSession& listed, const analysis::Overview& overview, const SessionNotes& notes,
       Console& console)
      : listed_(listed),
        session_(listed.opened),
        metadata_(listed.opened.stored.metadata),
        overview_(overview),
        notes_(notes),
        console_(console) {}

  // What is asked first comes first.
  void Print() {
    Header();
    Losses();
    Crash();
    InFlight();
    Failures();
    Marks();
    Processes();
    Devices();
    Events();
  }

 private:
  void Line(std::string_view label, std::string_view text) {
    console_.Print(Labelled(label, kLabelWidth, text, console_.style()));
  }
  void Title(std::string_view text) {
    console_.Print("\n" + Coloured(text, Tone::kBold, console_.style()) + "\n");
  }
  // Since the start of the session.
  std::string At(uint64_t ts_ns) const {
    const uint64_t start_ns = overview_.range.begin_ns;
    return "+" + FormatDuration(ts_ns > start_ns ? ts_ns - start_ns : 0);
  }

  std::string EndText() const {
    std::string exit = ExitText(metadata_);
    switch (session_.state) {
      case SessionState::kLive:
        if (exit.empty()) return "still being recorded";
        return exit + (LeftRunning() ? "; still open for what it left running"
                                     : "; the session is being completed, look again in a moment");
      case SessionState::kWaiting:
        return "still running, and not recorded just now: smeltrd is gone; `smeltr daemon start` goes on";
      case SessionState::kRecovered:
        return (exit.empty() ? "not known" : exit) +
               "; smeltrd was gone at the end, and a later one completed the session";
      case SessionState::kCutOff:
        return "cut off: smeltrd is gone, and no later one has completed the session yet";
      case SessionState::kEnded:
        break;
    }
    if (metadata_.end_reason == "client-lost") {
      return "`smeltr record` was killed; " + (exit.empty() ? "how the program ended is not known" : exit);
    }
    if (metadata_.end_reason == "daemon-shutdown") return "smeltrd was stopped while recording";
    if (metadata_.end_reason == "post-mortem" && exit.empty()) return "the program was still running";
    return exit.empty() ? "not known" : exit;
  }

  // Besides the recorded program itself, whose end is known.
  bool LeftRunning() const {
    return std::ranges::any_of(overview_.processes, [this](const analysis::ProcessRow& process) {
      return !process.exited && process.pid != metadata_.root_pid;
    });
  }

  void Header() {
    Line("Session", fmt::format("{}  ({})", session_.stored.short_id(), metadata_.session_id));
    if (!metadata_.name.empty()) Line("Name", Printable(metadata_.name));
    if (const std::string command = CommandText(metadata_); !command.empty())
      Line("Command", Printable(command));
    if (metadata_.kind != session::SessionKind::kScoped) {
      std::string kind(session::Name(metadata_.kind));
      if (!metadata_.source_session_id.empty()) kind += " of " + Printable(metadata_.source_session_id);
      Line("Kind", kind);
    }
    if (const std::string reason = ReasonText(metadata_); !reason.empty()) Line("Reason", Printable(reason));
    if (listed_.pinned) Line("Pinned", "kept until `smeltr sessions unpin`");
    for (const PostMortemNote& one : listed_.post_mortems) {
      Line("Dumped as", Printable(one.reason.empty() ? one.short_id : one.short_id + "  " + one.reason));
    }
    if (!metadata_.imported_from.empty()) {
      Line("Imported", Printable(fmt::format("{}: {}", metadata_.imported_format, metadata_.imported_from)));
    }
    if (!metadata_.host.empty()) Line("Host", Printable(metadata_.host));
    Line("Started", StartText(metadata_));
    Line("Ended", EndText());
    Line("Length",
         fmt::format("{}, {}, {}", FormatDuration(session_.duration_ns()),
                     FormatCounted(session_.event_count(), "event"), FormatBytes(listed_.disk_bytes)));
    if (metadata_.max_rss_bytes > 0) {
      Line("Resources",
           fmt::format("peak memory {}, CPU {} user, {} system", FormatBytes(metadata_.max_rss_bytes),
                       FormatDuration(metadata_.user_cpu_ns), FormatDuration(metadata_.system_cpu_ns)));
    }
    // The event of a silent hook says what the metadata says, and is there before the session has ended.
    if (metadata_.hook_state == "requested-but-silent") {
      Line("Hook", Printable("silent: " + metadata_.hook_reason));
    } else if (metadata_.hook_state == "skipped") {
      Line("Hook", Printable("not used: " + metadata_.hook_reason));
    } else {
      for (const std::string& reason : overview_.silent_hooks) Line("Hook", Printable("silent: " + reason));
    }
    Line("GPU work", CbText());
  }

  std::string CbText() const {
    const analysis::CbCounts& cbs = overview_.cbs;
    if (cbs.committed == 0 && cbs.completed == 0) return "none recorded";
    std::string text = FormatCounted(cbs.committed, "command buffer") + " committed, " +
                       FormatCount(cbs.completed) + " completed";
    if (cbs.failed > 0) text += ", " + FormatCount(cbs.failed) + " failed";
    if (cbs.abandoned > 0) text += ", " + FormatCount(cbs.abandoned) + " abandoned";
    if (cbs.commit_lost > 0) text += " (" + FormatCount(cbs.commit_lost) + " committed before)";
    if (cbs.untimed > 0) text += ", " + FormatCount(cbs.untimed) + " completed unread";
    if (cbs.cut_away > 0) text += ", " + FormatCount(cbs.cut_away) + " unknown (cut away)";
    if (cbs.incomplete > 0) text += ", " + FormatCount(cbs.incomplete) + InFlightWhen();
    return text;
  }

  bool Running() const { return session_.state == SessionState::kLive && ExitText(metadata_).empty(); }

  std::string InFlightWhen() const { return Running() ? " in flight now" : " in flight at the end"; }

  void Losses() {
    const LostCounts lost = LostEvents(session_, overview_.loss);
    if (lost.dropped > 0) {
      Line("Lost", fmt::format("{} dropped: a ring was full", FormatCounted(lost.dropped, "event")));
    }
    if (lost.storage > 0) {
      Line("Lost", fmt::format("{}: the disk would not take them", FormatCounted(lost.storage, "event")));
    }
    if (const std::string trimmed = TrimmedText(session_); !trimmed.empty()) Line("Trimmed", trimmed);
    if (!metadata_.repaired_rfc3339.empty()) {
      Line("Repaired",
           fmt::format("{}; {} lost to damage", Printable(metadata_.repaired_rfc3339.substr(0, 19)),
                       FormatCounted(metadata_.repair_lost_count, "event")));
    }
    if (metadata_.corrupt_frames > 0) {
      Line("Lost", fmt::format("{} in a ring", FormatCounted(metadata_.corrupt_frames, "damaged frame")));
    }
    const session::Damage damage = session_.damage();
    if (damage.torn_tail)
      Line("Damage", "the file ends inside a chunk: its writer was cut off; the rest was read");
    if (damage.skipped_chunks > 0 || damage.skipped_bytes > 0) {
      Line("Damage", fmt::format("{} ({}) could not be read; the rest was",
                                 FormatCounted(damage.skipped_chunks, "damaged chunk"),
                                 FormatBytes(damage.skipped_bytes)));
    }
    if (damage.unknown_kind_events > 0) {
      Line("Newer", fmt::format("{} of kinds this smeltr does not know",
                                FormatCounted(damage.unknown_kind_events, "event")));
    }
    for (const std::string& note : metadata_.import_notes) Line("Import", Printable(note));
    for (const std::string& problem : session_.problems) Line("Damage", Printable(problem));
    for (const analysis::Skip& skip : overview_.loss.skips) {
      Line("Skipped",
           fmt::format("{}: {}{}", FormatCounted(skip.count, "time"), analysis::Describe(skip.reason),
                       skip.detail.empty() ? "" : " (" + Printable(skip.detail) + ")"));
    }
  }

  void Events() {
    Title("Events");
    Table table({{"KIND"}, {"COUNT", Align::kRight}});
    for (const session::KindCount& one : session_.counts()) {
      table.Add({std::string(event::KindName(one.api, one.kind).view()), FormatCount(one.count)});
    }
    console_.Print(table.empty() ? "none\n" : table.Render(console_.style()));
  }

  bool IsOurs(uint32_t pid) const {
    return pid == metadata_.root_pid ||
           std::ranges::find(overview_.processes, pid, &analysis::ProcessRow::pid) !=
               overview_.processes.end();
  }

  void Crash() {
    // The machine's events are in every recording, those of other programs' crashes too.
    std::vector<CrashNote> ours;
    std::ranges::copy_if(notes_.crash, std::back_inserter(ours),
                         [this](const CrashNote& note) { return note.pid == 0 || IsOurs(note.pid); });
    if (ours.empty()) return;
    Title("Crash: what the system said");
    const size_t shown = std::min(ours.size(), kCrashLinesShown);
    for (size_t i = 0; i < shown; ++i) {
      const CrashNote& note = ours[i];
      const std::string report = note.report_path.empty() ? "" : "; report: " + note.report_path;
      Line(At(note.ts_ns), Printable(note.source + ": " + note.text + report));
    }
    if (shown < ours.size()) {
      Line("", fmt::format("and {} more; --json has them", FormatCount(ours.size() - shown)));
    }
  }

  void Marks() {
    if (notes_.mark_count == 0) return;
    Title("Marks");
    Table table({{"AT", Align::kRight}, {"PID"}, {"MARK", Align::kLeft, Flex::kWrap}});
    const size_t shown = std::min(notes_.marks.size(), kMarksShown);
    for (size_t i = 0; i < shown; ++i) {
      const MarkNote& mark = notes_.marks[i];
      const std::string fields = mark.fields.empty() ? "" : "  {" + mark.fields + "}";
      table.Add({At(mark.ts_ns), mark.pid == 0 ? "-" : fmt::format("{}", mark.pid),
                 Printable(mark.label + fields)});
    }
    console_.Print(table.Render(console_.style()));
    if (shown < notes_.mark_count) {
      console_.Print(fmt::format("and {} more; --json has {}\n", FormatCount(notes_.mark_count - shown),
                                 notes_.marks.size() < notes_.mark_count ? "the first thousand" : "them"));
    }
  }

  void Devices() {
    if (overview_.devices.empty() && overview_.queues.empty()) return;
    Title("Devices and queues");
    Table table({{"PID"}, {"API"}, {"DEVICE"}, {"QUEUE"}, {"WHAT", Align::kLeft, Flex::kWrap}});
    for (const analysis::DeviceRow& device : overview_.devices) {
      table.Add({fmt::format("{}", device.pid), std::string(event::EnumName(device.api)),
                 fmt::format("{}", device.device_id), "", Printable(device.name + ", " + device.driver)});
    }
    for (const analysis::QueueRow& queue : overview_.queues) {
      const char* const untimed = queue.timestamp_valid_bits == 0 ? " (no timestamps)" : "";
      table.Add({fmt::format("{}", queue.pid), std::string(event::EnumName(queue.api)),
                 fmt::format("{}", queue.device_id), fmt::format("{}", queue.queue_id),
                 Printable(queue.label) + untimed});
    }
    console_.Print(table.Render(console_.style()));
  }

  void Processes() {
    if (overview_.processes.empty()) return;
    Title("Processes");
    Table table({{"PID"}, {"PARENT"}, {"ENDED"}, {"EXECUTABLE", Align::kLeft, Flex::kCut}});
    for (const analysis::ProcessRow& process : overview_.processes) {
      std::string ended = "-";
      if (process.exited && process.term_signal != 0)
        ended = SignalName(static_cast<int>(process.term_signal));
      if (process.exited && process.term_signal == 0 && process.exit_code >= 0) {
        ended = fmt::format("exit {}", process.exit_code);
      }
      table.Add({fmt::format("{}", process.pid),
                 process.parent_pid == 0 ? "-" : fmt::format("{}", process.parent_pid), ended,
                 Printable(process.executable)});
    }
    console_.Print(table.Render(console_.style()));
  }

  void Failures() {
    if (overview_.errors.empty() && overview_.failure_count == 0) return;
    Title("Errors");
    for (const analysis::ErrorRow& error : overview_.errors) {
      Line(At(error.first_ts_ns),
           Printable(fmt::format("{} returned {} ({}), {}", error.call, error.error_name, error.error_code,
                                 FormatCounted(error.count, "time"))));
    }
    const size_t shown = std::min(overview_.failures.size(), kFailuresShown);
    for (size_t i = 0; i < shown; ++i)
      Line(At(overview_.failures[i].ts_ns), Printable(overview_.failures[i].text));
    if (shown < overview_.failure_count) {
      Line("", fmt::format("and {} more; --json has them", FormatCount(overview_.failure_count - shown)));
    }
  }

  void InFlight() {
    if (overview_.cbs.incomplete == 0) return;
    Title(Running() ? "In flight now: committed, not completed yet"
                    : "In flight at the end: committed, never completed");
    Table table({{"CB", Align::kRight},
                 {"PID"},
                 {"QUEUE"},
                 {"AGE", Align::kRight},
                 {"SCOPE", Align::kLeft, Flex::kCut}});
    const size_t shown = std::min(overview_.in_flight.size(), kInFlightShown);
    for (size_t i = 0; i < shown; ++i) {
      const analysis::InFlightRow& cb = overview_.in_flight[i];
      const std::string queue =
          cb.queue_label.empty() ? fmt::format("{}", cb.queue_id) : Printable(cb.queue_label);
      table.Add({fmt::format("{}", cb.cb_id), fmt::format("{}", cb.pid), queue, FormatDuration(cb.age_ns),
                 cb.scope_path.empty() ? "-" : Printable(cb.scope_path)});
    }
    console_.Print(table.Render(console_.style()));
    if (shown < overview_.cbs.incomplete) {
      console_.Print(
          fmt::format("and {} more; --json has them\n", FormatCount(overview_.cbs.incomplete - shown)));
    }
  }

  const ListedSession& listed_;
  const OpenedSession& session_;
  const session::Metadata& metadata_;
  const analysis::Overview& overview_;
  const SessionNotes& notes_;
  Console& console_;
};

class SessionsShow final : public Command {
 public:
  CLI::App* AddTo(CLI::App& sessions) override {
    CLI::App* const app =
        sessions.add_subcommand("show", "Show what a session holds, how it ended and what was in flight");
    app->add_option("REF", choice_.reference, "Session: short id, full id, name or directory");
    app->add_flag("--last", choice_.last, "The newest recording");
    app->add_flag("--json", json_, "Print JSON");
    app->footer("Examples:\n  smeltr sessions show --last\n  smeltr sessions show 3f2a9c1d --json");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(OpenedSession opened, ChooseSession(paths.sessions, choice_));
    SMELTR_ASSIGN_OR_RETURN(const ListedSession session, Listed(paths.sessions, std::move(opened)));
    const analysis::SessionSource source = session.opened.source();
    const analysis::Overview overview = analysis::ComputeOverview(source);
    const SessionNotes notes = CollectNotes(source);
    if (json_) {
      console.Print(SessionJson(session, overview, notes));
    } else {
      Page(session, overview, notes, console).Print();
    }
    return kExitOk;
  }

 private:
  SessionChoice choice_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionsShow() { return std::make_unique<SessionsShow>(); }

}  // namespace smeltr::faces::cli
