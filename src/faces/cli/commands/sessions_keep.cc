// `smeltr sessions pin|unpin|rm`: what is kept and what is not, session by session.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <utility>

#include "faces/cli/command.h"
#include "faces/cli/commands/sessions.h"
#include "faces/cli/console.h"
#include "faces/cli/session_text.h"
#include "faces/opened_session.h"
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
    SMELTR_ASSIGN_OR_RETURN(session::StoredSession one, session::Resolve(paths.sessions, reference));
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
    app->add_option("REF", references_, "Sessions: short ids, full ids or names")->required();
    app->footer(pin_ ? "Example:\n  smeltr sessions pin baseline 3f2a9c1d"
                     : "Example:\n  smeltr sessions unpin baseline");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(const auto sessions, ResolveAll(paths, references_));
    for (const session::StoredSession& one : sessions) {
      SMELTR_TRY(session::SetPinned(one.directory, pin_));
      console.Print(fmt::format("{} {}\n", pin_ ? "pinned" : "unpinned", Called(one)));
    }
    return kExitOk;
  }

 private:
  bool pin_;
  std::vector<std::string> references_;
};

class SessionsRm final : public Command {
 public:
  CLI::App* AddTo(CLI::App& sessions) override {
    CLI::App* const app = sessions.add_subcommand("rm", "Delete sessions");
    app->add_option("REF", references_, "Sessions: short ids, full ids or names")->required();
    app->add_flag("--force", force_, "Also pinned ones and those still being recorded");
    app->add_flag("--yes", yes_, "Do not ask");
    app->footer("Example:\n  smeltr sessions rm 3f2a9c1d 77b01c22");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(const auto sessions, ResolveAll(paths, references_));
    if (!force_) SMELTR_TRY(CheckAllMayGo(sessions));
    uint64_t bytes = 0;
    for (const session::StoredSession& one : sessions) bytes += session::DirectoryBytes(one.directory);
    const std::string what =
        fmt::format("{} ({})", FormatCounted(sessions.size(), "session"), FormatBytes(bytes));
    if (!yes_ && !Confirmed(console, fmt::format("delete {}?", what))) return kExitFailed;
    for (const session::StoredSession& one : sessions) {
      SMELTR_TRY(session::RemoveSession(paths.sessions, one.directory.filename().native(), force_));
    }
    console.Print(fmt::format("deleted {}\n", what));
    return kExitOk;
  }

 private:
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
  bool force_ = false;
  bool yes_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionsPin() { return std::make_unique<SessionsPin>(true); }
std::unique_ptr<Command> MakeSessionsUnpin() { return std::make_unique<SessionsPin>(false); }
std::unique_ptr<Command> MakeSessionsRm() { return std::make_unique<SessionsRm>(); }

}  // namespace smeltr::faces::cli
