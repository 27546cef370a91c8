// A subcommand of `smeltr`, and the one visible list of them.
//
// A command is one file in commands/: it describes its options to CLI11 and runs with what was parsed.
// CLI11 stays in .cc files; this header only names its App.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"

namespace CLI {
class App;
}

namespace smeltr::faces::cli {

class Console;

// Exit statuses besides the recorded child's own (commands/record.cc).
inline constexpr int kExitOk = 0;
inline constexpr int kExitFailed = 1;
inline constexpr int kExitUsage = 2;
inline constexpr int kExitNotRunning = 3;  // `daemon status` without a daemon.
inline constexpr int kExitLost = 4;        // `tail` lost its daemon.

class Command {
 public:
  virtual ~Command() = default;
  // Adds the subcommand to `root`, with its help, an example as footer, and options bound to members of
  // this object. Returns what it added; main() runs the command whose App was parsed.
  virtual CLI::App* AddTo(CLI::App& root) = 0;
  // Before parsing: moves out of `arguments` (those behind the subcommand's name) what belongs to another
  // program and must not be looked at by CLI11, which would take "[a,b]" apart.
  virtual void TakeVerbatim(std::vector<std::string>& /*arguments*/) {}
  // Returns the exit status. An error becomes one line on stderr, "smeltr: <text>", and status
  // kExitUsage for kInvalidArgument, else kExitFailed. Writes results through `console` only.
  virtual Result<int> Run(Console& console) = 0;
};

std::unique_ptr<Command> MakeRecord();
std::unique_ptr<Command> MakeSessions();
std::unique_ptr<Command> MakeBreakdown();
std::unique_ptr<Command> MakeMark();
std::unique_ptr<Command> MakeTail();
std::unique_ptr<Command> MakeDump();
std::unique_ptr<Command> MakeImport();
std::unique_ptr<Command> MakeDaemon();
std::unique_ptr<Command> MakeDoctor();

// In the order of `smeltr --help`.
using MakeCommand = std::unique_ptr<Command> (*)();
inline constexpr std::array<MakeCommand, 9> kCommands{MakeRecord, MakeSessions, MakeBreakdown,
                                                      MakeMark,   MakeTail,     MakeDump,
                                                      MakeImport, MakeDaemon,   MakeDoctor};

}  // namespace smeltr::faces::cli
