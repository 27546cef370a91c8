#include "faces/cli/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faces/cli/command.h"
#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

using Added = std::pair<CLI::App*, std::unique_ptr<Command>>;

std::vector<std::string> Arguments(int argc, const char* const* argv, const std::vector<Added>& commands) {
  std::vector<std::string> arguments(argv + std::min(argc, 1), argv + argc);
  for (const auto& [added, command] : commands) {
    if (arguments.empty() || added->get_name() != arguments[0]) continue;
    std::vector<std::string> behind(arguments.begin() + 1, arguments.end());
    command->TakeVerbatim(behind);
    arguments.resize(1);
    arguments.insert(arguments.end(), behind.begin(), behind.end());
    break;
  }
  return arguments;
}

// The command a parse error belongs to, for the hint: "smeltr sessions show".
std::string DeepestParsed(const CLI::App& app) {
  std::string path = "smeltr";
  for (const CLI::App* at = &app;;) {
    const std::vector<CLI::App*> parsed = at->get_subcommands();
    if (parsed.empty()) return path;
    at = parsed.front();
    path += " " + at->get_name();
  }
}

// CLI11 itself would only say that a subcommand is missing.
bool IsUnknownCommand(const std::vector<std::string>& arguments, const std::vector<Added>& commands) {
  if (arguments.empty() || arguments[0].starts_with('-')) return false;
  return std::none_of(commands.begin(), commands.end(),
                      [&](const Added& added) { return added.first->get_name() == arguments[0]; });
}

// Help as CLI11 makes it, with lines that run over wrapped: descriptions of options under themselves.
std::string Wrapped(std::string_view help) {
  constexpr size_t kHelpWidth = 80;
  std::string out;
  while (!help.empty()) {
    std::string line(help.substr(0, help.find('\n')));
    help.remove_prefix(std::min(line.size() + 1, help.size()));
    const size_t text = std::min(line.find_first_not_of(' '), line.size());
    // Where the second column starts, if there is one.
    const size_t gap = text == 0 ? std::string::npos : line.find("  ", text);
    const size_t indent = gap == std::string::npos ? text : line.find_first_not_of(' ', gap);
    while (line.size() > kHelpWidth) {
      const size_t space = line.rfind(' ', kHelpWidth);
      if (space == std::string::npos || space <= indent) break;
      out += line.substr(0, space) + '\n';
      line = std::string(indent, ' ') + line.substr(space + 1);
    }
    out += line + '\n';
  }
  return out;
}

int ReportUsage(const CLI::App& app, std::string text, Console& console) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  console.Warn(fmt::format("{}; see `{} --help`", Printable(text), DeepestParsed(app)));
  return kExitUsage;
}

int RunParsed(Command& command, Console& console) {
  const Result<int> status = command.Run(console);
  if (!status.has_value()) {
    console.Flush();
    console.Warn(status.error().text());
    return status.error().code() == ErrorCode::kInvalidArgument ? kExitUsage : kExitFailed;
  }
  if (!console.Flush()) {
    console.Warn("cannot write the output: is the disk full, or the reader gone?");
    return *status == kExitOk ? kExitFailed : *status;
  }
  return *status;
}

}  // namespace

int Run(int argc, const char* const* argv, Console& console) {
  CLI::App app("smeltr: a flight recorder for GPU work", "smeltr");
  app.set_version_flag("--version", "smeltr " SMELTR_VERSION);
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  app.get_formatter()->column_width(24);
  app.footer(
      "Examples:\n  smeltr record -- ./infer     run a program and record its GPU work\n"
      "  smeltr breakdown             where the GPU time of the newest recording went\n"
      "  smeltr sessions ls           what has been recorded\n"
      "`smeltr COMMAND --help` explains a command.");
  std::vector<Added> commands;
  for (const MakeCommand make : kCommands) {
    auto command = make();
    CLI::App* const added = command->AddTo(app);
    commands.emplace_back(added, std::move(command));
  }
  // CLI11 reports by throwing; nothing else here does.
  try {
    std::vector<std::string> arguments = Arguments(argc, argv, commands);
    if (IsUnknownCommand(arguments, commands)) {
      return ReportUsage(app, "no such command: " + arguments[0], console);
    }
    // CLI11 wants them last first.
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  } catch (const CLI::CallForHelp&) {
    console.Print(Wrapped(app.help()));
    return console.Flush() ? kExitOk : kExitFailed;
  } catch (const CLI::CallForVersion& version) {
    console.Print(std::string(version.what()) + "\n");
    return console.Flush() ? kExitOk : kExitFailed;
  } catch (const CLI::ParseError& error) {
    return ReportUsage(app, error.what(), console);
  }
  for (const auto& [added, command] : commands) {
    if (added->parsed()) return RunParsed(*command, console);
  }
  return ReportUsage(app, "a command is required", console);
}

}  // namespace smeltr::faces::cli
