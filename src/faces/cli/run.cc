#include "faces/cli/run.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "faces/cli/command.h"
#include "util/edit_distance.h"
#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

constexpr size_t kComparedBytes = 64;

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

// "help record" is "record --help".
void TurnHelpAround(std::vector<std::string>& arguments) {
  if (arguments.empty() || arguments[0] != "help") return;
  arguments.erase(arguments.begin());
  arguments.emplace_back("--help");
}

std::vector<const CLI::App*> PartsOf(const CLI::App& app) {
  return app.get_subcommands([](const CLI::App*) { return true; });
}

// "; did you mean `show`?" for what could be a slip.
std::string NearestPart(std::string_view word, const CLI::App& app) {
  std::string nearest;
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  for (const CLI::App* part : PartsOf(app)) {
    const size_t distance = EditDistance(word.substr(0, kComparedBytes), part->get_name());
    // Of short words everything is near.
    if (distance >= least || distance >= std::max(word.size(), part->get_name().size())) continue;
    least = distance;
    nearest = part->get_name();
  }
  return nearest.empty() ? "" : fmt::format("; did you mean `{}`?", nearest);
}

// What stands where a command should and is none, as an error text; CLI11 itself would only say that a
// subcommand is missing. `path` becomes the command that it was looked for in.
std::string UnknownCommand(const std::vector<std::string>& arguments, const CLI::App& root,
                           std::string& path) {
  const CLI::App* at = &root;
  for (const std::string& word : arguments) {
    const std::vector<const CLI::App*> parts = PartsOf(*at);
    if (parts.empty() || word.starts_with('-')) return {};
    const auto found = std::ranges::find(parts, word, [](const CLI::App* part) { return part->get_name(); });
    if (found == parts.end()) {
      return fmt::format("no such command: {}{}", at == &root ? "" : at->get_name() + " ", word) +
             NearestPart(word, *at);
    }
    at = *found;
    path += " " + word;
  }
  return {};
}

// Help as CLI11 makes it, with lines that run over wrapped: descriptions of options under themselves.
std::string Wrapped(std::string_view help) {
  constexpr size_t kHelpWidth = 80;
  std::string out;
  bool was_blank = false;
  while (!help.empty()) {
    std::string line(help.substr(0, help.find('\n')));
    help.remove_prefix(std::min(line.size() + 1, help.size()));
    // A group of hidden options leaves an empty paragraph.
    if (line.empty() && std::exchange(was_blank, true)) continue;
    was_blank = line.empty();
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

// What CLI11 says in the words of a programmer.
std::string InPlainWords(std::string text) {
  constexpr std::string_view kConversion = "Could not convert: ";
  constexpr std::string_view kMissing = "A subcommand is required";
  if (text.starts_with(kMissing)) return "a command is missing";
  if (!text.starts_with(kConversion)) return text;
  const size_t equals = text.find(" = ");
  if (equals == std::string::npos) return text;
  return fmt::format("{}: '{}' is no number it can take",
                     text.substr(kConversion.size(), equals - kConversion.size()), text.substr(equals + 3));
}

int ReportUsage(const std::string& path, std::string text, Console& console) {
  std::replace(text.begin(), text.end(), '\n', ' ');
  while (!text.empty() && (text.back() == '.' || text.back() == ' ')) text.pop_back();
  console.Warn(fmt::format("{}; see `{} --help`", Printable(InPlainWords(std::move(text))), path));
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
      "`smeltr COMMAND --help` and `smeltr help COMMAND` explain a command.");
  std::vector<Added> commands;
  for (const MakeCommand make : kCommands) {
    auto command = make();
    CLI::App* const added = command->AddTo(app);
    commands.emplace_back(added, std::move(command));
  }
  // CLI11 reports by throwing; nothing else here does.
  try {
    std::vector<std::string> arguments = Arguments(argc, argv, commands);
    TurnHelpAround(arguments);
    std::string path = "smeltr";
    if (const std::string unknown = UnknownCommand(arguments, app, path); !unknown.empty()) {
      return ReportUsage(path, unknown, console);
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
    return ReportUsage(DeepestParsed(app), error.what(), console);
  }
  for (const auto& [added, command] : commands) {
    if (added->parsed()) return RunParsed(*command, console);
  }
  return ReportUsage(DeepestParsed(app), "a command is missing", console);
}

}  // namespace smeltr::faces::cli
