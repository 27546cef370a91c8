// `smeltr record`: options only; the work is launch/record.h.
#include "launch/record.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "launch/daemon_start.h"
#include "session/store.h"
#include "util/config.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

class Record : public Command {
 public:
  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* app = root.add_subcommand("record", "Run a program and record its GPU work as a session");
    app->add_option("--name", name_, "Name of the session")->type_name("NAME");
    app->add_option("--max-size", max_size_,
                    "Of the session on disk, as in 500M; events of its middle go first")
        ->type_name("SIZE");
    app->add_option("--footprint-period", footprint_period_ms_, "Between looks at the memory of each process")
        ->type_name("MS")
        ->check(CLI::Range(100, 3'600'000).description(""));
    app->add_flag("--no-hook", no_hook_, "Leave the GPU alone; record scopes and marks only");
    app->add_flag("--require", require_, "Rather not run the program at all than unrecorded (exit 125)");
    app->add_flag("--quiet", quiet_, "Do not say at the end what was recorded");
    // For the help; TakeVerbatim leaves nothing to parse.
    app->add_option("command", unused_, "The program and its arguments")->type_name("-- CMD...");
    app->footer(
        "Example:\n  smeltr record --name baseline -- ./infer --steps 100\n"
        "The exit status is the program's, 128 + signal when one killed it, 127 when there is no such "
        "command, 126 when it cannot be executed, 125 with --require when it cannot be recorded.");
    app_ = app;
    return app;
  }

  // From its first word on, or behind "--", everything is the program's, whatever it looks like.
  void TakeVerbatim(std::vector<std::string>& arguments) override {
    auto first = arguments.begin();
    while (first != arguments.end() && first->starts_with("-") && *first != "--") {
      const bool takes_one = *first == "--name" || *first == "--max-size" || *first == "--footprint-period";
      const bool has_value = takes_one && std::next(first) != arguments.end();
      first += has_value ? 2 : 1;
    }
    const auto word = first != arguments.end() && *first == "--" ? std::next(first) : first;
    argv_.assign(std::make_move_iterator(word), std::make_move_iterator(arguments.end()));
    arguments.erase(first, arguments.end());
  }

  Result<int> Run(Console& console) override;

 private:
  Result<std::string> SessionName(Console& console) const;

  CLI::App* app_ = nullptr;
  std::string name_;
  std::string max_size_;
  uint64_t footprint_period_ms_ = 0;
  bool no_hook_ = false;
  bool require_ = false;
  bool quiet_ = false;
  std::vector<std::string> argv_;
  std::vector<std::string> unused_;
};

// A bad --name is a mistake in this command line; a bad variable may have been meant for another.
Result<std::string> Record::SessionName(Console& console) const {
  if (app_->count("--name") != 0) return session::ValidateName(name_);
  const auto inherited = Environment("SMELTR_SESSION_NAME");
  if (!inherited.has_value()) return std::string();
  auto name = session::ValidateName(*inherited);
  if (name.has_value()) return name;
  console.Warn(fmt::format("warning: ignoring SMELTR_SESSION_NAME: {}", name.error().text()));
  return std::string();
}

Result<int> Record::Run(Console& console) {
  launch::RecordOptions options;
  options.argv = argv_;
  if (options.argv.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "record needs a command, as in: smeltr record -- ./program");
  }
  SMELTR_ASSIGN_OR_RETURN(options.session_name, SessionName(console));
  if (app_->count("--max-size") != 0) {
    const auto bytes = ParseBytes(max_size_);
    if (!bytes.has_value() || *bytes < kSmallestSessionBytes) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("--max-size: '{}' is no size of {} or more; one is 500M or 10GiB",
                              Printable(max_size_), FormatBytes(kSmallestSessionBytes)));
    }
    options.max_size_bytes = *bytes;
  }
  options.footprint_period_ms = footprint_period_ms_;
  options.gpu_hook = !no_hook_;
  options.require = require_;
  options.quiet = quiet_;
  options.daemon_program = launch::SiblingDaemon();
  return launch::Record(options);
}

}  // namespace

std::unique_ptr<Command> MakeRecord() { return std::make_unique<Record>(); }

}  // namespace smeltr::faces::cli
