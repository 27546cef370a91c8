// `smeltr import`: sessions of the earlier smeltr and Chrome traces, as sessions.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "faces/cli/progress.h"
#include "faces/cli/table.h"
#include "faces/imported_json.h"
#include "session/import_trace.h"
#include "session/import_v1.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

namespace fs = std::filesystem;

class Import final : public Command {
 public:
  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* const app =
        root.add_subcommand("import", "Bring in sessions of the earlier smeltr, and Chrome traces");
    app->add_option("PATH", path_, "A session's directory, a directory of such, or a trace (.json)")
        ->required()
        ->type_name("");
    app->add_option("--name", name_, "Of the session, for a trace; its file's name if not given")
        ->type_name("NAME");
    app->add_flag("--force", force_, "Again what is there already, in its place");
    app->add_flag("--json", json_, "Print JSON");
    app->footer(
        "Examples:\n  smeltr import ~/old/.smeltr/sessions\n"
        "  smeltr import trace.json --name baseline && smeltr breakdown baseline\n"
        "Traces are those of torch.profiler, JAX and others in Chrome's trace format. Of\n"
        "damaged files what can be read is imported; what was lost is told, with its\n"
        "place, also later by `smeltr sessions show`. The files stay as they are.");
    return app;
  }

  Result<int> Run(Console& console) override {
    std::error_code error;
    const fs::file_status status = fs::status(path_, error);
    if (!fs::exists(status)) {
      return Fail(ErrorCode::kInvalidArgument, fmt::format("there is no {}", Printable(path_)));
    }
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    if (fs::is_directory(status)) return ImportDirectory(paths, console);
    if (!name_.empty()) SMELTR_TRY(session::ValidateName(name_));
    const auto import = [&](const session::ImportOptions& options) {
      return session::ImportTrace(path_, name_, options);
    };
    std::vector<ImportRow> rows;
    rows.push_back(ImportOne(paths, path_, import));
    if (!json_) PrintOne(rows.front(), console);
    return Finish(rows, 0, console);
  }

 private:
  Result<int> ImportDirectory(const Paths& paths, Console& console) const {
    if (!name_.empty()) {
      return Fail(ErrorCode::kInvalidArgument, "--name is for traces: earlier sessions have names");
    }
    SMELTR_ASSIGN_OR_RETURN(const session::V1Sessions found, session::FindV1Sessions(path_));
    if (found.directories.empty()) {
      const std::string own = found.own_count == 0 ? "for a trace, give its file"
                                                   : FormatCounted(found.own_count, "session") +
                                                         " there need no import: they are this smeltr's";
      return Fail(ErrorCode::kNotFound, fmt::format("no session of an earlier smeltr (events.cbor.zst) in "
                                                    "{}; {}",
                                                    Printable(path_), own));
    }
    std::vector<ImportRow> rows;
    for (const fs::path& directory : found.directories) {
      rows.push_back(ImportOne(paths, directory, [&](const session::ImportOptions& options) {
        return session::ImportV1Session(directory, options);
      }));
      if (!json_) PrintOne(rows.back(), console);
    }
    return Finish(rows, found.own_count, console);
  }

  template <typename F>
  ImportRow ImportOne(const Paths& paths, const fs::path& source, F import) const {
    ProgressLine progress("importing " + Printable(source.filename().native()));
    const auto imported =
        import(session::ImportOptions{.sessions_directory = paths.sessions,
                                      .force = force_,
                                      .smeltr_version = SMELTR_VERSION,
                                      .progress = [&](uint64_t done_bytes, uint64_t all_bytes) {
                                        progress.Update(done_bytes, all_bytes);
                                      }});
    progress.Clear();
    ImportRow row{.source = source.native(), .imported = {}, .error = {}};
    if (imported.has_value()) {
      row.imported = *imported;
    } else {
      row.error = imported.error().text();
    }
    return row;
  }

  static void PrintOne(const ImportRow& row, Console& console) {
    if (!row.error.empty()) {
      console.Flush();
      console.Warn(fmt::format("{}: {}", Printable(row.source), row.error));
      return;
    }
    const session::ImportedSession& imported = row.imported;
    const session::Metadata& metadata = imported.stored.metadata;
    const std::string id = imported.stored.short_id();
    const std::string name = metadata.name.empty() ? "" : fmt::format(" ({})", Printable(metadata.name));
    if (imported.outcome == session::ImportOutcome::kAlreadyThere) {
      console.Print(fmt::format("{}{} is there already; --force imports it again\n", id, name));
      return;
    }
    const bool again = imported.outcome == session::ImportOutcome::kReplaced;
    console.Print(fmt::format("{} {}{}: {}, {}\n", again ? "replaced" : "imported", id, name,
                              FormatCounted(imported.event_count, "event"),
                              Printable(metadata.imported_format)));
    for (const std::string& note : imported.notes) {
      console.Print(Labelled("", 2, Printable(note), console.style()));
    }
  }

  int Finish(const std::vector<ImportRow>& rows, uint64_t own_count, Console& console) const {
    if (json_) console.Print(ImportedJson(rows, own_count));
    size_t failed = 0;
    const ImportRow* last = nullptr;
    for (const ImportRow& row : rows) {
      failed += row.error.empty() ? 0 : 1;
      if (row.error.empty()) last = &row;
    }
    if (!json_ && rows.size() > 1) {
      console.Print(fmt::format("{} of {} are sessions now; `smeltr sessions ls` lists them\n",
                                FormatCount(rows.size() - failed), FormatCount(rows.size())));
    } else if (!json_ && last != nullptr) {
      console.Print(fmt::format("next: smeltr breakdown {}\n", last->imported.stored.short_id()));
    }
    return failed == 0 ? kExitOk : kExitFailed;
  }

  std::string path_;
  std::string name_;
  bool force_ = false;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeImport() { return std::make_unique<Import>(); }

}  // namespace smeltr::faces::cli
