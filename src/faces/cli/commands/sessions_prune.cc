// `smeltr sessions prune`: the daemon's hourly clean-up, now and by hand.
#include <fmt/format.h>

#include <CLI/CLI.hpp>

#include "base/clock.h"
#include "faces/cli/command.h"
#include "faces/cli/commands/sessions.h"
#include "faces/cli/console.h"
#include "faces/cli/session_text.h"
#include "faces/cli/table.h"
#include "faces/daemon_json.h"
#include "session/retention.h"
#include "util/config.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

class SessionsPrune final : public Command {
 public:
  CLI::App* AddTo(CLI::App& sessions) override {
    app_ = sessions.add_subcommand("prune", "Delete what is too old or too much");
    app_->add_option("--max-total", max_total_, "All sessions together, as in 10GiB; 0: no limit")
        ->type_name("SIZE");
    app_->add_option("--max-age-days", max_age_days_, "Any session; 0: no limit")->type_name("DAYS");
    app_->add_flag("--dry-run", dry_run_, "Only say what would go");
    app_->add_flag("--yes", yes_, "Do not ask");
    app_->add_flag("--json", json_, "Print JSON");
    app_->footer(
        "Examples:\n  smeltr sessions prune --dry-run\n  smeltr sessions prune --max-total 2GiB\n"
        "Limits not given are those of config.toml: 10 GiB, 30 days, ambient sessions 7 days, 30 "
        "post-mortems. Pinned sessions and those being recorded never go, crashes go last. "
        "smeltrd does the same every hour.");
    return app_;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_ASSIGN_OR_RETURN(const RetentionSettings settings, Settings(paths));
    SMELTR_ASSIGN_OR_RETURN(const auto sessions, session::SurveySessions(paths.sessions, {}));
    const auto removals = session::PlanRemovals(sessions, settings, WallNowNs());
    std::vector<RemovedRow> rows;
    uint64_t all_bytes = 0;
    for (const session::KeptSession& one : sessions) all_bytes += one.bytes;
    for (const session::Removal& removal : removals) {
      const session::KeptSession& one = sessions[removal.index];
      rows.push_back({one.stored.metadata.session_id, one.stored.short_id(), one.stored.metadata.name,
                      session::Describe(removal.reason, settings), one.bytes, ""});
    }
    if (!json_) PrintPlan(rows, console);
    if (!dry_run_ && !rows.empty()) {
      if (!yes_ && !json_ && !Confirmed(console, "delete these?")) return kExitFailed;
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto& directory = sessions[removals[i].index].stored.directory;
        const auto removed = session::RemoveSession(paths.sessions, directory.filename().native(), false);
        if (!removed.has_value()) rows[i].error = removed.error().text();
      }
    }
    return Report(rows, all_bytes, console);
  }

 private:
  Result<RetentionSettings> Settings(const Paths& paths) const {
    const auto loaded = LoadConfig(ConfigFile(paths.home));
    // Wrong, but not in this command line. What to delete is not guessed.
    if (!loaded.has_value()) return Fail(ErrorCode::kCorrupt, loaded.error().text());
    RetentionSettings settings = loaded->config.retention;
    if (app_->count("--max-age-days") != 0) settings.max_age_days = max_age_days_;
    if (app_->count("--max-total") != 0) {
      const auto bytes = ParseBytes(max_total_);
      if (!bytes.has_value()) {
        return Fail(ErrorCode::kInvalidArgument,
                    fmt::format("--max-total: '{}' is no size; one is 500M or 10GiB", Printable(max_total_)));
      }
      settings.max_total_bytes = *bytes;
    }
    return settings;
  }

  static void PrintPlan(const std::vector<RemovedRow>& rows, Console& console) {
    if (rows.empty()) return;
    Table table({{"ID"}, {"SIZE", Align::kRight}, {"WHY"}, {"NAME", Align::kLeft, Flex::kCut}});
    for (const RemovedRow& row : rows) {
      table.Add({row.short_id, FormatBytes(row.bytes), row.reason, Printable(row.name)});
    }
    console.Print(table.Render(console.style()));
  }

  int Report(const std::vector<RemovedRow>& rows, uint64_t all_bytes, Console& console) const {
    uint64_t freed_bytes = 0;
    size_t failed = 0;
    for (const RemovedRow& row : rows) {
      if (row.error.empty()) {
        freed_bytes += row.bytes;
        continue;
      }
      ++failed;
      console.Warn(row.error);
    }
    const uint64_t kept_bytes = all_bytes - freed_bytes;
    const size_t removed = rows.size() - failed;
    if (json_) {
      console.Print(RemovedJson(rows, dry_run_, kept_bytes));
    } else if (rows.empty()) {
      console.Print(fmt::format("nothing to delete; {} in all\n", FormatBytes(kept_bytes)));
    } else {
      console.Print(fmt::format("{} {}: {} freed, {} left\n", dry_run_ ? "would delete" : "deleted",
                                FormatCounted(removed, "session"), FormatBytes(freed_bytes),
                                FormatBytes(kept_bytes)));
    }
    return failed == 0 ? kExitOk : kExitFailed;
  }

  CLI::App* app_ = nullptr;
  std::string max_total_;
  uint64_t max_age_days_ = 0;
  bool dry_run_ = false;
  bool yes_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeSessionsPrune() { return std::make_unique<SessionsPrune>(); }

}  // namespace smeltr::faces::cli
