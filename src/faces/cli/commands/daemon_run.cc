// `smeltr daemon start|stop|restart`.
#include <errno.h>
#include <fmt/format.h>
#include <signal.h>
#include <string.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "base/clock.h"
#include "faces/cli/commands/daemon.h"
#include "faces/cli/console.h"
#include "faces/cli/daemon_client.h"
#include "ipc/connection.h"
#include "launch/daemon_start.h"
#include "launch/lock_holder.h"
#include "launch/service.h"
#include "util/format.h"
#include "util/process.h"

namespace smeltr::faces::cli {
namespace {

constexpr long kLookNs = 20'000'000;
constexpr int kKillLimitMs = 5000;
constexpr int kNoticeLimitMs = 2000;

bool WaitGone(const RunningDaemon& daemon, int limit_ms) {
  const uint64_t deadline_ns = MonotonicNowNs() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  while (daemon.Lives()) {
    if (MonotonicNowNs() >= deadline_ns) return false;
    const timespec pause{0, kLookNs};
    ::nanosleep(&pause, nullptr);
  }
  return true;
}

// Through whoever keeps it running, where somebody does.
Result<void> AskToEnd(const Paths& paths) {
  SMELTR_ASSIGN_OR_RETURN(ipc::Client client, ConnectToDaemon(paths, "cli"));
  const auto report = client.Call(ipc::Status{});
  const bool managed = report.has_value() && report->managed_by == launch::ServiceManagerName();
  if (managed && launch::StopService().has_value()) return {};
  return client.Call(ipc::Shutdown{});
}

// Recordings whose program runs; 0 when the daemon does not say.
size_t CountRunning(const Paths& paths) {
  auto client = ConnectToDaemon(paths, "cli");
  if (!client.has_value()) return 0;
  const ipc::StatusReport report = client->Call(ipc::Status{}).value_or(ipc::StatusReport{});
  return static_cast<size_t>(std::ranges::count_if(report.sessions, [](const ipc::RecordingStatus& one) {
    return one.kind != "ambient" && one.state != "ending";
  }));
}

// One that `record` started ends when idle; a user who starts one wants it to stay.
Result<bool> MakeRoom(const Paths& paths, const RunningDaemon& daemon, Console& console) {
  if (!launch::EndsWhenIdle(daemon.pid)) {
    console.Print(fmt::format("smeltrd runs already, pid {}\n", daemon.pid));
    return false;
  }
  SMELTR_ASSIGN_OR_RETURN(ipc::Client client, ConnectToDaemon(paths, "cli"));
  const auto report = client.Call(ipc::Status{});
  for (const ipc::RecordingStatus& session : report.value_or(ipc::StatusReport{}).sessions) {
    if (session.kind == "ambient") continue;
    console.Print(
        fmt::format("smeltrd runs already, pid {}; `record` started it, so it ends when idle:\n"
                    "`smeltr daemon restart` after the recording makes it stay\n",
                    daemon.pid));
    return false;
  }
  SMELTR_TRY(StopDaemon(paths, daemon, false));
  return true;
}

class DaemonStart final : public Command {
 public:
  CLI::App* AddTo(CLI::App& daemon) override {
    CLI::App* const app = daemon.add_subcommand("start", "Start smeltrd in the background, to stay");
    app->footer("Example:\n  smeltr daemon start\nIt is gone after a restart of the machine; see install.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    if (const auto daemon = FindDaemon(paths)) {
      SMELTR_ASSIGN_OR_RETURN(const bool room, MakeRoom(paths, *daemon, console));
      if (!room) return kExitOk;
    }
    SMELTR_ASSIGN_OR_RETURN(const pid_t pid, StartDaemonThatStays(paths));
    console.Print(fmt::format("smeltrd runs, pid {}\n", pid));
    return kExitOk;
  }
};

class DaemonStop final : public Command {
 public:
  CLI::App* AddTo(CLI::App& daemon) override {
    CLI::App* const app = daemon.add_subcommand("stop", "Have smeltrd complete its sessions and end");
    app->add_flag("--force", force_, "Kill it if it does not end within 10 s");
    app->footer(
        "Example:\n  smeltr daemon stop\n"
        "Recorded programs go on; a smeltrd started within 30 s goes on with their sessions.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    const auto daemon = FindAnyDaemon(paths);
    if (!daemon.has_value()) {
      console.Print("smeltrd does not run\n");
      return kExitOk;
    }
    const size_t recordings = CountRunning(paths);
    SMELTR_TRY(StopDaemon(paths, *daemon, force_));
    console.Print(fmt::format("smeltrd has ended, pid {}\n", daemon->pid));
    if (recordings > 0) {
      console.Print(
          fmt::format("{}; a smeltrd started within 30 s goes on with {}: `smeltr daemon start`\n",
                      FormatCounted(recordings, "recorded program still runs", "recorded programs still run"),
                      recordings == 1 ? "its session" : "their sessions"));
    }
    return kExitOk;
  }

 private:
  bool force_ = false;
};

class DaemonRestart final : public Command {
 public:
  CLI::App* AddTo(CLI::App& daemon) override {
    CLI::App* const app = daemon.add_subcommand("restart", "Stop and start; recordings go on");
    app->add_flag("--force", force_, "Kill the old one if it does not end within 10 s");
    app->footer("Example:\n  smeltr daemon restart    after an update, say");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    if (const auto daemon = FindAnyDaemon(paths)) SMELTR_TRY(StopDaemon(paths, *daemon, force_));
    SMELTR_ASSIGN_OR_RETURN(const pid_t pid, StartDaemonThatStays(paths));
    console.Print(fmt::format("smeltrd runs, pid {}\n", pid));
    return kExitOk;
  }

 private:
  bool force_ = false;
};

}  // namespace

bool RunningDaemon::Lives() const {
  const auto facts = ReadProcessFacts(pid);
  return facts.has_value() && facts->start_time_ticks == start_time_ticks && facts->state != 'Z' &&
         facts->state != 'X';
}

std::optional<RunningDaemon> FindDaemon(const Paths& paths) {
  const auto connection = ipc::Connection::Open(paths.socket);
  if (!connection.has_value()) return std::nullopt;
  RunningDaemon daemon;
  daemon.pid = connection->peer().pid;
  // Gone in this instant, or in another PID namespace: then there is nobody to wait for.
  const auto facts = ReadProcessFacts(daemon.pid);
  if (facts.has_value()) daemon.start_time_ticks = facts->start_time_ticks;
  // One that was killed is dead before its last thread has let go of the socket.
  if (facts.has_value() && !daemon.Lives()) return std::nullopt;
  return daemon;
}

std::optional<RunningDaemon> FindAnyDaemon(const Paths& paths) {
  if (auto daemon = FindDaemon(paths)) return daemon;
  const auto holder = launch::FindLockHolder(paths.lock);
  if (!holder.has_value()) return std::nullopt;
  return RunningDaemon{holder->pid, holder->start_time_ticks};
}

Result<pid_t> StartDaemonThatStays(const Paths& paths) {
  launch::StartOptions options;
  options.idle_exit_seconds = 0;
  options.limit_ms = kDaemonStartLimitMs;
  SMELTR_ASSIGN_OR_RETURN(const ipc::Client client,
                          launch::ConnectOrStart(paths, launch::SiblingDaemon(), "cli", options));
  return static_cast<pid_t>(client.welcome().daemon_pid);
}

Result<void> StopDaemon(const Paths& paths, const RunningDaemon& daemon, bool force) {
  auto asked = AskToEnd(paths);
  if (!asked.has_value() && asked.error().code() == ErrorCode::kNotFound) {
    // About to end, or about to notice that its socket file is gone.
    if (WaitGone(daemon, kNoticeLimitMs)) return {};
    asked = AskToEnd(paths);
  }
  if (!asked.has_value() && !force) {
    return Fail(asked.error().code(), fmt::format("{}; --force kills it", asked.error().text()));
  }
  if (asked.has_value() && WaitGone(daemon, kDaemonStopLimitMs)) return {};
  if (!force) {
    return Fail(ErrorCode::kUnavailable,
                fmt::format("smeltrd, pid {}, has not ended within {} s; --force kills it", daemon.pid,
                            kDaemonStopLimitMs / 1000));
  }
  // Only the very process that served the socket, and only while it still is that process.
  if (daemon.start_time_ticks != 0 && daemon.Lives() && ::kill(daemon.pid, SIGKILL) != 0) {
    return Fail(ErrorCode::kPermission, fmt::format("cannot kill pid {}: {}", daemon.pid, ::strerror(errno)));
  }
  if (WaitGone(daemon, kKillLimitMs)) return {};
  return Fail(ErrorCode::kUnavailable,
              fmt::format("smeltrd, pid {}, was killed but is not gone", daemon.pid));
}

std::unique_ptr<Command> MakeDaemonStart() { return std::make_unique<DaemonStart>(); }
std::unique_ptr<Command> MakeDaemonStop() { return std::make_unique<DaemonStop>(); }
std::unique_ptr<Command> MakeDaemonRestart() { return std::make_unique<DaemonRestart>(); }

}  // namespace smeltr::faces::cli
