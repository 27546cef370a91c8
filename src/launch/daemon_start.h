// A connection to the daemon of this home, started if none runs.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string_view>

#include "base/result.h"
#include "ipc/client.h"
#include "util/paths.h"

namespace smeltr::launch {

// It takes some 20 ms; on a machine with no core to spare it takes seconds, and a run that is not recorded
// cannot be made up for.
inline constexpr int kStartLimitMs = 10'000;
inline constexpr int kIdleExitSeconds = 60;

struct StartOptions {
  int idle_exit_seconds = kIdleExitSeconds;  // 0: it stays until told to end.
  int limit_ms = kStartLimitMs;
};

// A daemon that is there but silent is waited for no longer than that, unless it waits for a core or the disk
// itself.
inline constexpr int kMuteLimitMs = 2000;

// Connects; if nobody is there, starts `daemon_program` (detached from the terminal and from this process,
// output to paths.log, ending by itself when idle) and connects when it is ready. Any number of processes
// may do this at once: one daemon wins, all connect to it. kIo when one is there that does not answer.
Result<ipc::Client> ConnectOrStart(const Paths& paths, const std::filesystem::path& daemon_program,
                                   std::string_view role, const StartOptions& options = {});

// Whether there is hope of an answer of the daemon that was connected to: not of one that is stopped, nor of
// one that sleeps over a Hello for so long.
bool DaemonAnswers(const Paths& paths, int limit_ms);

// Whether the daemon with this pid was started by ConnectOrStart to end when idle.
bool EndsWhenIdle(pid_t daemon_pid);

// smeltrd beside the running program.
std::filesystem::path SiblingDaemon();

}  // namespace smeltr::launch
