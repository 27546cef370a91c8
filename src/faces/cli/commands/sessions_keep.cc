// `smeltr sessions pin|unpin|rm`: what is kept and what is not, session by session.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "faces/cli/command.h"
#include "faces/cli/commands/sessions.h"
#include "faces/cli/console.h"
#include "faces/cli/session_text.h"
#include "faces/daemon_json.h"
#include "faces/listed_session.h"
#include "faces/opened_session.h"
#include "faces/session_reference.h"
#include "session/open_lock.h"
#include "session/retention.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

// All of them or none: a slip in one reference must not leave half the work done.
Result<std::vector<session::StoredSession>> ResolveAll(const Paths& paths,
                                                       const std::vector<std::string>& references) {
  std::vector<session::StoredSession> found;
  for (const std::string& reference : references) {
    SMELTR_ASSIGN_OR_RETURN(session::StoredSession one, FindOwnSession(paths.sessions, reference));
    const bool again = std::ranges::any_of(
        found, [&](const session::StoredSession& other) { return other.directory == one.directory; });
    if (!again) found.push_back(std::move(one));
  }
  return found;
}

std::string Called(const session::StoredSession& session) {
  const std::string id = session.short_id();
  return id.empty() ? Printable(session.directory.filename().native()) : id;
}

class SessionsPin final : public Command {
 public:
  explicit SessionsPin(bool pin) : pin_(pin) {}

  CLI::App* AddTo(CLI::App& sessions) override {
    CLI::App* const app = sessions.add_subcommand(
        pin_ ? "pin" : "unpin", pin_ ? "Keep sessions whatever their age and size" : "Undo pin");
    app->add_option("REF", references_, "Sessions: short ids, full ids, names or directories")->required();
    app->add_flag("--json", json_, "Print JSON");
    app->footer(pin_ ? "Example:\n  smeltr sessions pin baseline 3f2a9c1d"
                     : "Example:\n  smeltr sessions unpin baseline");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(const auto sessions, ResolveAll(paths, references_));
    for (const session::StoredSession& one : sessions) {
      SMELTR_TRY(session::SetPinned(one.directory, pin_));
      if (!json_) console.Print(fmt::format("{} {}\n", pin_ ? "pinned" : "unpinned", Called(one)));
    }
    if (json_) console.Print(PinnedJson(sessions, pin_));
    return kExitOk;
  }

 private:
  bool pin_;
  bool json_ = false;
  std::vector<std::string> references_;
};

class SessionsRm final : public Command {
 public:
  CLI::App* AddTo(CLI::App& sessions) override {
    CLI::App* const app = sessions.add_subcommand("rm", "Delete sessions");
    app->add_option("REF", references_, "Sessions: short ids, full ids, names or directories");
    app->add_flag("--last", last_, "The newest recording");
    app->add_flag("--force", force_, "Also pinned ones and those still being recorded");
    app->add_flag("--yes", yes_, "Do not ask");
    app->add_flag("--json", json_, "Print JSON; does not ask");
    app->footer(
        "Examples:\n  smeltr sessions rm 3f2a9c1d 77b01c22\n  smeltr sessions rm --last\n"
        "Post-mortems of a session stay when it goes.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(const auto sessions, Chosen(paths));
    if (!force_) SMELTR_TRY(CheckAllMayGo(sessions));
    SMELTR_ASSIGN_OR_RETURN(const auto all, session::ListSessions(paths.sessions));
    std::vector<RemovedRow> rows;
    uint64_t bytes = 0;
    for (const session::StoredSession& one : sessions) {
      rows.push_back({one.metadata.session_id, one.short_id(), one.metadata.name, "asked for",
                      session::DirectoryBytes(one.directory), ""});
      bytes += rows.back().bytes;
    }
    const std::string what =
        fmt::format("{} ({})", FormatCounted(sessions.size(), "session"), FormatBytes(bytes));
    if (!yes_ && !json_ && !Confirmed(console, fmt::format("delete {}?", what))) return kExitFailed;
    for (const session::StoredSession& one : sessions) {
      SMELTR_TRY(session::RemoveSession(paths.sessions, one.directory.filename().native(), force_));
    }
    if (json_) {
      console.Print(RemovedJson(rows, false, KeptBytes(all, sessions)));
    } else {
      console.Print(fmt::format("deleted {}\n", what) + LeftBehind(all, sessions));
    }
    return kExitOk;
  }

 private:
  using Sessions = std::vector<session::StoredSession>;

  Result<Sessions> Chosen(const Paths& paths) const {
    if (last_ != references_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, last_ ? "give either sessions or --last, not both"
                                                     : "which sessions? Give their ids or names, or --last");
    }
    if (!last_) return ResolveAll(paths, references_);
    SMELTR_ASSIGN_OR_RETURN(session::StoredSession newest, session::ResolveLast(paths.sessions, false));
    return Sessions{std::move(newest)};
  }

  static bool Contains(const Sessions& sessions, const session::StoredSession& one) {
    return std::ranges::any_of(sessions, [&](const auto& other) { return other.directory == one.directory; });
  }

  static uint64_t KeptBytes(const Sessions& all, const Sessions& removed) {
    uint64_t bytes = 0;
    for (const session::StoredSession& one : all) {
      if (!Contains(removed, one)) bytes += session::DirectoryBytes(one.directory);
    }
    return bytes;
  }

  // A line for the post-mortems that are now all that is left of their sessions.
  static std::string LeftBehind(const Sessions& all, const Sessions& removed) {
    const PostMortemsBySource post_mortems = FindPostMortems(all);
    std::string ids;
    for (const session::StoredSession& one : removed) {
      const auto found = post_mortems.find(one.metadata.session_id);
      if (found == post_mortems.end()) continue;
      for (const PostMortemNote& note : found->second) {
        const bool gone = std::ranges::any_of(
            removed, [&](const auto& other) { return other.short_id() == note.short_id; });
        if (!gone) ids += " " + Printable(note.short_id);
      }
    }
    return ids.empty() ? ids : "kept what is about them; `smeltr sessions rm" + ids + "` deletes that too\n";
  }

  static Result<void> CheckAllMayGo(const std::vector<session::StoredSession>& sessions) {
    for (const session::StoredSession& one : sessions) {
      if (session::IsOpen(one.directory)) {
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("{} is still being recorded; --force deletes it all the same", Called(one)));
      }
      if (session::IsPinned(one.directory)) {
        return Fail(ErrorCode::kUnavailable,
                    fmt::format("{} is pinned; unpin it, or use --force", Called(one)));
      }
    }
    return {};
  }

  std::vector<std::string> references_;
  bool last_ = false;
  bool force_ = false;
  bool yes_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionsPin() { return std::make_unique<SessionsPin>(true); }
std::unique_ptr<Command> MakeSessionsUnpin() { return std::make_unique<SessionsPin>(false); }
std::unique_ptr<Command> MakeSessionsRm() { return std::make_unique<SessionsRm>(); }

}  // namespace smeltr::faces::cli
