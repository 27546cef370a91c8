// `smeltr dump`: what the flight recorder holds, kept as a post-mortem session.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "faces/cli/daemon_client.h"
#include "faces/daemon_json.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

class Dump final : public Command {
 public:
  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* const app =
        root.add_subcommand("dump", "Keep the last minute of events as a post-mortem session");
    app->add_option("--session", reference_, "Of which; the newest recording under way if not given")
        ->type_name("REF");
    app->add_option("--label", label_, "Why, for the list of sessions")->type_name("TEXT");
    app->add_flag("--json", json_, "Print JSON");
    app->footer(
        "Example:\n  smeltr dump --label \"stutter at level 3\"\n"
        "smeltrd does this by itself when a recorded program crashes or the GPU fails. How far back "
        "it goes is set in config.toml: [flight_recorder] seconds.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    ipc::Dump dump;
    dump.label = label_;
    SMELTR_ASSIGN_OR_RETURN(dump.session_id, SessionIdOf(paths, reference_));
    SMELTR_ASSIGN_OR_RETURN(ipc::Client client, ConnectToDaemon(paths, "dump"));
    const auto dumped = client.Call(dump);
    if (!dumped.has_value()) return Fail(ErrorCode::kUnavailable, dumped.error().text());
    if (json_) {
      console.Print(DumpedJson(*dumped));
    } else {
      console.Print(fmt::format("wrote {} as {} in {}\n", FormatCounted(dumped->event_count, "event"),
                                dumped->short_id, Printable(dumped->session_directory)));
    }
    return kExitOk;
  }

 private:
  std::string reference_;
  std::string label_;
  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDump() { return std::make_unique<Dump>(); }

}  // namespace smeltr::faces::cli
