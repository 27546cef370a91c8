// smeltrd: wiring only.
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <CLI/CLI.hpp>
#include <string>

#include "base/standard_fds.h"
#include "daemon/lifecycle.h"
#include "util/file.h"
#include "util/log.h"

namespace {

constexpr int kExitFailed = 1;
constexpr int kExitUsage = 2;
constexpr int kExitLocked = 3;

// A descriptor a ring, a connection, a session: what is usual for a shell is little for that. The others are
// what somebody set for the program that happened to start the daemon for everybody.
void RaiseLimits() {
  for (const auto resource : {RLIMIT_NOFILE, RLIMIT_CPU, RLIMIT_FSIZE, RLIMIT_AS, RLIMIT_DATA}) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0) continue;
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(resource, &limit);
  }
}

int Fail(const smeltr::Error& error) {
  smeltr::Log(smeltr::LogLevel::kError, error.text());
  return error.code() == smeltr::ErrorCode::kAlreadyExists ? kExitLocked : kExitFailed;
}

}  // namespace

int main(int argc, char** argv) {
  smeltr::OccupyStandardFds();
  CLI::App app(
      "smeltrd writes what recorded programs do on the GPU into sessions. `smeltr record` starts it.");
  app.set_version_flag("--version", "smeltrd " SMELTR_VERSION);
  smeltr::daemon::DaemonOptions options;
  uint64_t idle_exit_seconds = 0;
  app.add_option("--idle-exit-seconds", idle_exit_seconds,
                 "End after so many seconds without a recording or connection (0: never)");
  app.add_option("--ready-fd", options.ready_fd, "Inherited descriptor that gets a byte when ready");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : kExitUsage;
  }
  if (idle_exit_seconds != 0) options.idle_exit_ns = idle_exit_seconds * 1'000'000'000;

  ::umask(0077);
  ::signal(SIGPIPE, SIG_IGN);
  // A file size limit inherited from whoever started us makes writes fail, like a full disk.
  ::signal(SIGXFSZ, SIG_IGN);
  RaiseLimits();
  smeltr::SetLogLevel(
      smeltr::ParseLogLevel(smeltr::Environment("SMELTR_LOG").value_or(""), smeltr::LogLevel::kInfo));
  const auto paths = smeltr::ResolvePaths();
  if (!paths.has_value()) return Fail(paths.error());
  if (const auto made = smeltr::MakePrivateDirectory(paths->home); !made.has_value())
    return Fail(made.error());
  const auto lock = smeltr::daemon::HomeLock::Acquire(paths->lock);
  if (!lock.has_value()) return Fail(lock.error());
  // What is thrown ends the process (crash_guard.h). Half alive is worse than gone: the next daemon takes
  // open sessions over.
  const auto ended = smeltr::daemon::RunDaemon(*paths, options, *lock);
  return ended.has_value() ? 0 : Fail(ended.error());
}
