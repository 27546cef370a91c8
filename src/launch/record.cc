#include "launch/record.h"

#include <fmt/format.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>
#include <random>
#include <string_view>

#include "ipc/client.h"
#include "launch/child.h"
#include "launch/daemon_start.h"
#include "launch/inject.h"
#include "launch/keeper.h"
#include "launch/target.h"
#include "util/file.h"
#include "util/format.h"
#include "util/process.h"

namespace smeltr::launch {
namespace {

// Argument lists may be longer than a message: what is kept of them is for people to read.
constexpr size_t kKeptArgumentBytes = size_t{64} * 1024;

// One write, so that lines of several processes do not mix. A stderr that is gone is no reason to stop. Names
// in it may be anybody's.
void Say(std::string_view text) {
  const std::string line = fmt::format("smeltr: {}\n", Printable(text));
  [[maybe_unused]] const ssize_t ignored = ::write(STDERR_FILENO, line.data(), line.size());
}

std::string MakeToken() {
  std::random_device random;
  std::array<uint32_t, 4> words{};
  for (uint32_t& word : words) word = random();
  // The bits that make it a version 4 UUID.
  words[1] = (words[1] & 0xFFFF0FFFU) | 0x4000U;
  words[2] = (words[2] & 0x3FFFFFFFU) | 0x80000000U;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:04x}{:08x}", words[0], words[1] >> 16, words[1] & 0xFFFFU,
                     words[2] >> 16, words[2] & 0xFFFFU, words[3]);
}

std::vector<std::string> KeptArguments(const std::vector<std::string>& argv) {
  std::vector<std::string> kept;
  size_t bytes = 0;
  for (const std::string& argument : argv) {
    bytes += argument.size() + 16;
    if (bytes > kKeptArgumentBytes) {
      kept.push_back(fmt::format("... ({} more arguments)", argv.size() - kept.size()));
      return kept;
    }
    kept.push_back(argument);
  }
  return kept;
}

// What exists of a recording before the program does.
struct Recording {
  Keeper keeper;
  ipc::Reserved session;
  Injection injection;
};

Result<Recording> Prepare(const RecordOptions& options) {
  SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
  SMELTR_ASSIGN_OR_RETURN(HookFiles hook, [&]() -> Result<HookFiles> {
    SMELTR_TRY(MakePrivateDirectory(paths.home));
    return UnpackHook(paths.lib, EmbeddedHook());
  }());
  SMELTR_ASSIGN_OR_RETURN(ipc::Client client, ConnectOrStart(paths, options.daemon_program, "record"));
  if (client.welcome().home != paths.home.native()) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the smeltrd at {} serves {}, not {}: unset SMELTR_SOCKET or set SMELTR_HOME",
                            paths.socket.native(), client.welcome().home, paths.home.native()));
  }
  ipc::Reserve reserve;
  reserve.token = MakeToken();
  reserve.name = options.session_name;
  reserve.argv = KeptArguments(options.argv);
  std::error_code error;
  reserve.cwd = std::filesystem::current_path(error).native();
  reserve.max_size_bytes = options.max_size_bytes;
  reserve.footprint_period_ms = options.footprint_period_ms;
  SMELTR_ASSIGN_OR_RETURN(ipc::Reserved session, client.Call(reserve));
  Injection injection{paths.home,    paths.socket,    session.ring_directory,
                      reserve.token, std::move(hook), options.gpu_hook};
  return Recording{Keeper(paths, options.daemon_program, session.session_id, std::move(client)),
                   std::move(session), std::move(injection)};
}

ipc::Attach MakeAttach(const RecordOptions& options, const Recording& recording, const HookVerdict& verdict) {
  ipc::Attach attach;
  attach.session_id = recording.session.session_id;
  const std::string disabled = Environment("SMELTR_HOOK_DISABLE").value_or("0");
  if (!options.gpu_hook) {
    attach.hook_reason = "--no-hook";
  } else if (disabled != "0") {
    attach.hook_reason = "SMELTR_HOOK_DISABLE is set";
  } else {
    attach.hook_reason = verdict.reason;
  }
  const bool wanted = options.gpu_hook && disabled == "0";
  attach.hook_state = wanted && verdict.can_load ? "requested" : "skipped";
  return attach;
}

void WarnBeforehand(const RecordOptions& options, const HookVerdict& verdict) {
  for (const std::string& name : UnknownVariables(InheritedEnvironment())) {
    Say(fmt::format("warning: nothing reads the environment variable {}: misspelt?", name));
  }
  if (options.gpu_hook && !verdict.can_load) {
    Say(fmt::format("warning: {}: its own GPU work cannot be recorded, only that of programs it starts",
                    verdict.reason));
  }
}

// "killed by SIGSEGV (core dumped); "; empty for an end that was asked for, and for none by signal.
std::string DeathText(const ExitStatus& status) {
  constexpr std::array kAskedFor = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE};
  if (!status.term_signal || std::ranges::find(kAskedFor, *status.term_signal) != kAskedFor.end()) return {};
  return fmt::format("killed by {}{}; ", SignalName(*status.term_signal),
                     status.core_dumped ? " (core dumped)" : "");
}

void ReportEnd(const RecordOptions& options, const Recording& recording, const ipc::Finished& finished,
               const ExitStatus& status) {
  const std::string& id = recording.session.short_id;
  if (!finished.drained) Say(fmt::format("warning: session {} could not be completed in time", id));
  if (finished.storage_lost_count != 0) {
    Say(fmt::format("warning: the disk refused {} events: free some space on that of {}",
                    FormatCount(finished.storage_lost_count), recording.session.session_directory));
  }
  if (finished.failed_ring_count != 0) {
    Say(fmt::format("warning: {} in {} could not be recorded: {}",
                    FormatCounted(finished.failed_ring_count, "program"), id, finished.ring_failure));
  }
  if (options.quiet) return;
  const std::string death = DeathText(status);
  // After a crash what was in flight comes before where time went.
  const std::string see =
      fmt::format("; see: smeltr {} {}", death.empty() ? "breakdown" : "sessions show", id);
  if (finished.hook_state == "requested-but-silent") {
    // From outside the cases look the same.
    constexpr std::string_view kSilent =
        ": no hook reported (no Vulkan instance, or one in a process that changed its user or cleared its "
        "environment)";
    Say(fmt::format("{}recorded no GPU work as {}{}{}", death, id,
                    finished.failed_ring_count == 0 ? kSilent : "", death.empty() ? "" : see));
    return;
  }
  std::string more;
  if (finished.live_process_count != 0) {
    more = fmt::format("; still recording {} of its processes", finished.live_process_count);
  } else if (options.gpu_hook && !finished.saw_gpu) {
    more = ", no GPU work among them";
  }
  Say(fmt::format("{}recorded {} events ({} dropped) as {}{}{}", death, FormatCount(finished.event_count),
                  FormatCount(finished.dropped_count), id, more, see));
}

ipc::Finish MakeFinish(const Recording& recording, const ExitStatus& status) {
  ipc::Finish finish;
  finish.session_id = recording.session.session_id;
  finish.exit_code = status.exit_code;
  finish.term_signal = status.term_signal;
  finish.core_dumped = status.core_dumped;
  finish.max_rss_bytes = status.max_rss_bytes;
  finish.user_cpu_ns = status.user_cpu_ns;
  finish.system_cpu_ns = status.system_cpu_ns;
  return finish;
}

// Attaches the held child; an error leaves the recording abandoned and the child as it is.
Result<void> Attach(const RecordOptions& options, Recording& recording, const HookVerdict& verdict,
                    pid_t pid) {
  ipc::Attach attach = MakeAttach(options, recording, verdict);
  attach.pid = static_cast<uint32_t>(pid);
  SMELTR_ASSIGN_OR_RETURN(const ProcessFacts facts, ReadProcessFacts(pid));
  attach.start_time_ticks = facts.start_time_ticks;
  return recording.keeper.Attach(attach);
}

void Finish(const RecordOptions& options, Recording& recording, const ExitStatus& status) {
  if (!status.exit_code.has_value() && !status.term_signal.has_value()) {
    Say(fmt::format("left the program running; session {} goes on until it ends",
                    recording.session.short_id));
    return;
  }
  const auto finished = recording.keeper.Finish(MakeFinish(recording, status));
  if (finished.has_value()) return ReportEnd(options, recording, *finished, status);
  Say(fmt::format("warning: {}: session {} may be incomplete", finished.error().text(),
                  recording.session.short_id));
}

int FailedStart(const Error& error) {
  Say(error.text());
  return error.code() == ErrorCode::kNotFound ? kExitNotFound : kExitNotExecutable;
}

// From the held child to its end. `recording` is empty for an unrecorded run.
int RunChild(const RecordOptions& options, const Command& command, std::optional<Recording> recording,
             const HookVerdict& verdict, const SignalGuard& signals) {
  auto child = Child::SpawnHeld(command, signals);
  if (!child.has_value()) {
    Say(child.error().text());
    return kExitOwnFailure;
  }
  if (recording.has_value()) {
    const auto attached = Attach(options, *recording, verdict, child->pid());
    if (!attached.has_value()) {
      Say(fmt::format("warning: {}: the recording may be incomplete", attached.error().text()));
      if (options.require) return kExitOwnFailure;
    }
  }
  if (const auto released = child->Release(); !released.has_value()) {
    if (recording.has_value()) {
      if (const auto canceled = recording->keeper.Cancel(); !canceled.has_value()) {
        Say(fmt::format("warning: {}", canceled.error().text()));
      }
    }
    return FailedStart(released.error());
  }
  const ExitStatus status = child->Wait(signals, recording.has_value() ? &recording->keeper : nullptr);
  if (recording.has_value()) Finish(options, *recording, status);
  return ShellStatus(status);
}

}  // namespace

int Record(const RecordOptions& options) {
  const SignalGuard signals;
  const std::string path = Environment("PATH").value_or("/bin:/usr/bin");
  Command command;
  command.argv = options.argv;
  const auto executable = FindExecutable(options.argv.front(), path);
  if (!executable.has_value()) return FailedStart(executable.error());
  command.executable = *executable;

  const HookVerdict verdict = JudgeBinary(FollowToBinary(command.executable, path));
  WarnBeforehand(options, verdict);
  auto recording = Prepare(options);
  if (!recording.has_value()) {
    if (options.require) {
      Say(fmt::format("{}; not running the program (--require)", recording.error().text()));
      return kExitOwnFailure;
    }
    Say(fmt::format("warning: {}; running the program unrecorded", recording.error().text()));
    command.environment = UnrecordedEnvironment(InheritedEnvironment());
    return RunChild(options, command, std::nullopt, verdict, signals);
  }
  command.environment = ChildEnvironment(InheritedEnvironment(), recording->injection);
  // Unrecorded rather than not at all.
  command.shorter_environment = UnrecordedEnvironment(InheritedEnvironment());
  return RunChild(options, command, std::move(*recording), verdict, signals);
}

}  // namespace smeltr::launch
