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

// "[ambient]", "[pinned, 2 post-mortems]"; empty for most.
std::string Annotation(const ListedSession& session) {
  const session::Metadata& metadata = session.opened.stored.metadata;
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "[" : ", ") + part; };
  if (metadata.kind == session::SessionKind::kPostMortem && !metadata.source_session_id.empty()) {
    add("post-mortem of " + Printable(metadata.source_session_id.substr(0, 8)));
  } else if (metadata.kind != session::SessionKind::kScoped) {
    add(std::string(session::Name(metadata.kind)));
  }
  if (session.pinned) add("pinned");
  if (!session.post_mortems.empty()) add(FormatCounted(session.post_mortems.size(), "post-mortem"));
  return text.empty() ? text : text + "] ";
}

std::string What(const ListedSession& session) {
  const OpenedSession& opened = session.opened;
  if (!opened.stored.metadata_readable) return "(metadata unreadable)";
  std::string what = Annotation(session);
  // Its kind says what there is to say.
  const session::Metadata& metadata = opened.stored.metadata;
  const bool says_more = !metadata.argv.empty() || !metadata.name.empty();
  if (says_more || metadata.kind == session::SessionKind::kScoped) what += NameAndCommand(metadata);
  if (opened.readers.empty()) what += " (no events)";
  return what;
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
        "Ambient sessions, in which smeltrd keeps what belongs to no recording, are left out\n"
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
    Table table({{"ID"},
                 {"STARTED"},
                 {"STATE"},
                 {"EXIT"},
                 {"LENGTH", Align::kRight},
                 {"EVENTS", Align::kRight},
                 {"SIZE", Align::kRight},
                 {"NAME, COMMAND", Align::kLeft, true}});
    for (const ListedSession& session : sessions) {
      const OpenedSession& opened = session.opened;
      const session::Metadata& metadata = opened.stored.metadata;
      table.Add({opened.stored.short_id(), ShortStartText(metadata), std::string(Name(opened.state)),
                 ShortExit(metadata), FormatDuration(opened.duration_ns()), FormatCount(opened.event_count()),
                 FormatBytes(session.disk_bytes), What(session)});
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
