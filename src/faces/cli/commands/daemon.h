// The parts of `smeltr daemon`, in the order of its help, and what they share.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "faces/cli/command.h"
#include "util/paths.h"

namespace smeltr::faces::cli {

std::unique_ptr<Command> MakeDaemonStatus();
std::unique_ptr<Command> MakeDaemonStart();
std::unique_ptr<Command> MakeDaemonStop();
std::unique_ptr<Command> MakeDaemonRestart();
std::unique_ptr<Command> MakeDaemonInstall();
std::unique_ptr<Command> MakeDaemonUninstall();
std::unique_ptr<Command> MakeDaemonLogs();

// A running smeltrd, by whoever serves the socket: files may tell of one that is long gone.
struct RunningDaemon {
  pid_t pid = 0;
  uint64_t start_time_ticks = 0;  // With the pid, the process.

  bool Lives() const;
};
// Nothing when nobody listens there. Does not ask it anything: it may hang.
std::optional<RunningDaemon> FindDaemon(const Paths& paths);
// Also one that nobody can reach: its socket file is gone, but it holds the lock of the home.
std::optional<RunningDaemon> FindAnyDaemon(const Paths& paths);

// It must answer within this time of its start.
inline constexpr int kDaemonStartLimitMs = 5000;
// Longer than it may take to complete its sessions.
inline constexpr int kDaemonStopLimitMs = 10'000;

// Starts one that stays; returns its pid.
Result<pid_t> StartDaemonThatStays(const Paths& paths);
// Has it end in good order and waits for that; with `force`, kills it when it does not.
Result<void> StopDaemon(const Paths& paths, const RunningDaemon& daemon, bool force);

}  // namespace smeltr::faces::cli
