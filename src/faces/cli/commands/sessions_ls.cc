// `smeltr sessions ls`: what has been recorded.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <utility>

#include "faces/answer_json.h"
#include "faces/cli/command.h"
#include "faces/cli/commands/sessions.h"
#include "faces/cli/console.h"
#include "faces/cli/session_text.h"
#include "faces/cli/table.h"
#include "faces/listed_session.h"
#include "faces/opened_session.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

// At this width there is room for every column.
constexpr size_t kWideColumns = 100;

// "crash (post-mortem of 3f2a9c1d)": its source's name and command stand in the source's row.
std::string PostMortemText(const session::Metadata& metadata) {
  const std::string source = metadata.source_session_id.substr(0, 8);
  const std::string what = source.empty() ? "post-mortem" : "post-mortem of " + source;
  const std::string reason = ShortReason(metadata);
  if (!reason.empty()) return reason + " (" + what + ")";
  return metadata.name.empty() ? what : metadata.name + " (" + what + ")";
}

// What tells sessions apart comes first, for it is cut at its end.
std::string What(const ListedSession& session) {
  const OpenedSession& opened = session.opened;
  if (!opened.stored.metadata_readable) return "(metadata unreadable)";
  const session::Metadata& metadata = opened.stored.metadata;
  const bool post_mortem = metadata.kind == session::SessionKind::kPostMortem;
  const std::string command = post_mortem ? "" : CommandText(metadata);
  std::string what = post_mortem ? PostMortemText(metadata) : metadata.name;
  if (session.pinned) what += what.empty() ? "[pinned] " : " [pinned]";
  if (!command.empty()) what += (metadata.name.empty() ? "" : ": ") + command;
  if (!session.post_mortems.empty()) {
    what += " [" + FormatCounted(session.post_mortems.size(), "post-mortem") + "]";
  }
  if (opened.readers.empty()) what += " (no events)";
  return Printable(what);
}

// "live", "exit 0", "SIGSEGV"; where nobody saw the end, why.
std::string End(const OpenedSession& opened) {
  const session::Metadata& metadata = opened.stored.metadata;
  const bool known = metadata.exit_code.has_value() || metadata.term_signal.has_value();
  if (opened.state == SessionState::kLive) return known ? "ending" : "live";
  if (metadata.term_signal) return SignalName(*metadata.term_signal);
  if (metadata.exit_code) return fmt::format("exit {}", *metadata.exit_code);
  if (opened.state != SessionState::kEnded) return std::string(Name(opened.state));
  const bool recorded_here =
      metadata.kind == session::SessionKind::kScoped && metadata.imported_rfc3339.empty();
  return recorded_here ? "unknown" : "-";
}

class SessionsLs final : public Command {
 public:
  CLI::App* AddTo(CLI::App& sessions) override {
    CLI::App* const app = sessions.add_subcommand("ls", "List sessions, newest first");
    app->add_option("--kind", kind_, "Only these: scoped, post-mortem, ambient or all")
        ->check(CLI::IsMember({"scoped", "post-mortem", "ambient", "all"}))
        ->type_name("KIND");
    app->add_flag("--all", all_, "With ambient sessions, as --kind all");
    app->add_option("--sort", sort_, "By start (newest first) or by size (largest first)")
        ->check(CLI::IsMember({"start", "size"}))
        ->type_name("ORDER");
    app->add_flag("--json", json_, "Print JSON");
    app->footer(
        "Examples:\n  smeltr sessions ls --sort size\n  smeltr sessions ls --kind post-mortem --json\n"
        "Ambient sessions, in which smeltrd keeps what belongs to no recording, are left out "
        "unless asked for.");
    return app;
  }

  Result<int> Run(Console& console) override {
    if (all_ && !kind_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "give either --all or --kind, not both");
    }
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(std::vector<session::StoredSession> stored,
                            session::ListSessions(paths.sessions));
    const bool none_at_all = stored.empty();
    const size_t before = stored.size();
    const PostMortemsBySource post_mortems = FindPostMortems(stored);
    std::erase_if(stored, [this](const session::StoredSession& one) { return !Wanted(one.metadata.kind); });
    const size_t hidden = before - stored.size();
    const std::vector<ListedSession> sessions = Gather(std::move(stored), post_mortems);
    if (json_) {
      console.Print(SessionsJson(sessions, hidden));
    } else if (none_at_all) {
      console.Print(fmt::format("No sessions in {} yet. Record one with `smeltr record -- COMMAND`.\n",
                                paths.sessions.string()));
    } else {
      PrintTable(sessions, hidden, console);
    }
    return kExitOk;
  }

 private:
  bool Wanted(session::SessionKind kind) const {
    if (all_ || kind_ == "all") return true;
    if (kind_.empty()) return kind != session::SessionKind::kAmbient;
    return session::Name(kind) == kind_;
  }

  std::vector<ListedSession> Gather(std::vector<session::StoredSession> stored,
                                    const PostMortemsBySource& post_mortems) const {
    std::vector<ListedSession> sessions;
    sessions.reserve(stored.size());
    for (session::StoredSession& one : stored) {
      sessions.push_back(List(OpenSession(std::move(one)), post_mortems));
    }
    if (sort_ == "size") std::ranges::stable_sort(sessions, std::greater(), &ListedSession::disk_bytes);
    return sessions;
  }

  void PrintTable(const std::vector<ListedSession>& sessions, size_t hidden, Console& console) const {
    const bool wide = console.style().width >= kWideColumns;
    std::vector<Column> columns{{"ID"},
                                {"NAME, COMMAND", Align::kLeft, Flex::kCut},
                                {"STARTED"},
                                {"END"},
                                {"LENGTH", Align::kRight},
                                {"SIZE", Align::kRight}};
    if (wide) columns.push_back({"EVENTS", Align::kRight});
    Table table(std::move(columns));
    for (const ListedSession& session : sessions) {
      const OpenedSession& opened = session.opened;
      std::vector<std::string> row{opened.stored.short_id(),
                                   What(session),
                                   ShortStartText(opened.stored.metadata),
                                   End(opened),
                                   FormatDuration(opened.duration_ns()),
                                   FormatBytes(session.disk_bytes)};
      if (wide) row.push_back(FormatCount(opened.event_count()));
      table.Add(std::move(row));
    }
    console.Print(table.empty() ? "none of that kind\n" : table.Render(console.style()));
    if (hidden > 0 && kind_.empty()) {
      console.Print(
          fmt::format("{} not shown; --all shows them\n", FormatCounted(hidden, "ambient session")));
    }
  }

  std::string kind_;
  std::string sort_ = "start";
  bool all_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionsLs() { return std::make_unique<SessionsLs>(); }

}  // namespace smeltr::faces::cli
