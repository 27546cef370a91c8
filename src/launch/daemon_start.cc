#include "launch/daemon_start.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/fd.h"
#include "launch/inject.h"
#include "launch/lock_holder.h"
#include "launch/service.h"
#include "util/file.h"

namespace smeltr::launch {
namespace {

constexpr std::string_view kIdleExitOption = "--idle-exit-seconds";
constexpr off_t kLogLimitBytes = 4 << 20;
constexpr int kAskLimitMs = 1000;
constexpr uint64_t kFirstPauseNs = 5'000'000;
constexpr uint64_t kLongestPauseNs = 500'000'000;

// Below the numbers that a shell's redirections use; the daemon closes everything else it inherited.
constexpr int kReadyFd = 3;
// What the child moves to the numbers 0 to 3 comes from here on, so that no move overwrites a later one's
// source.
constexpr int kFirstSpareFd = 10;

struct StartPlan {
  std::string program;
  std::vector<std::string> argv;
  std::vector<std::string> environment;
  std::vector<std::string> shorter_environment;  // When the system takes none as long as that.
  Fd log;
  Fd null;
};

bool MattersToDaemon(std::string_view entry) {
  static constexpr std::string_view kPrefixes[] = {
      "SMELTR_", "XDG_", "HOME=", "PATH=", "TMPDIR=", "LANG=", "LC_"};
  return std::ranges::any_of(kPrefixes, [&](std::string_view prefix) { return entry.starts_with(prefix); });
}

// Of a descriptor just opened, which may have got any number: one well above those.
Result<Fd> MoveUp(Fd fd, const std::filesystem::path& path) {
  Fd moved;
  if (fd.valid()) moved.Reset(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kFirstSpareFd));
  if (!moved.valid()) return std::unexpected(SystemError("open", path, errno));
  return moved;
}

// One daemon serves everybody who comes later, with the limits of whoever starts it. Soft ones it raises.
Result<void> CheckLimits() {
  struct Need {
    decltype(RLIMIT_NOFILE) resource;
    std::string_view name;
    rlim_t least;
  };
  static constexpr Need kNeeds[] = {{RLIMIT_NOFILE, "open files (ulimit -Hn)", 256},
                                    {RLIMIT_CPU, "CPU seconds (ulimit -Ht)", 600},
                                    {RLIMIT_FSIZE, "bytes a file (ulimit -Hf)", 64 << 20},
                                    {RLIMIT_AS, "bytes of memory (ulimit -Hv)", 512 << 20}};
  for (const Need& need : kNeeds) {
    rlimit limit{};
    if (::getrlimit(need.resource, &limit) != 0 || limit.rlim_max >= need.least) continue;
    return Fail(ErrorCode::kPermission,
                fmt::format("no smeltrd runs, and {} {} are too few for one: start it elsewhere with "
                            "`smeltr daemon start`",
                            limit.rlim_max, need.name));
  }
  return {};
}

Result<StartPlan> PlanStart(const Paths& paths, const std::filesystem::path& daemon_program,
                            const StartOptions& options) {
  if (::access(daemon_program.c_str(), X_OK) != 0) {
    return std::unexpected(SystemError("start", daemon_program, errno));
  }
  SMELTR_TRY(CheckLimits());
  SMELTR_TRY(MakePrivateDirectory(paths.home));
  struct stat status{};
  if (::stat(paths.log.c_str(), &status) == 0 && status.st_size > kLogLimitBytes) {
    ::rename(paths.log.c_str(), (paths.log.native() + ".1").c_str());
  }
  StartPlan plan;
  plan.program = daemon_program.native();
  plan.argv = {plan.program, "--ready-fd", std::to_string(kReadyFd)};
  if (options.idle_exit_seconds != 0) {
    plan.argv.emplace_back(kIdleExitOption);
    plan.argv.push_back(std::to_string(options.idle_exit_seconds));
  }
  plan.environment = UnrecordedEnvironment(InheritedEnvironment());
  // Of the service that runs us, if one does: the daemon is not that service.
  for (const std::string_view name :
       {"NOTIFY_SOCKET=", "INVOCATION_ID=", "JOURNAL_STREAM=", "XPC_SERVICE_NAME="}) {
    std::erase_if(plan.environment, [&](const auto& entry) { return entry.starts_with(name); });
  }
  for (const auto& [name, value] :
       {std::pair("SMELTR_HOME", paths.home), std::pair("SMELTR_SOCKET", paths.socket)}) {
    std::erase_if(plan.environment,
                  [&](const auto& entry) { return entry.starts_with(std::string(name) + "="); });
    plan.environment.push_back(fmt::format("{}={}", name, value.native()));
  }
  std::ranges::copy_if(plan.environment, std::back_inserter(plan.shorter_environment), MattersToDaemon);
  // Without O_NONBLOCK, a FIFO in its place would wait for a reader, perhaps for ever.
  constexpr int kLogFlags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  SMELTR_ASSIGN_OR_RETURN(plan.log, MoveUp(Fd(::open(paths.log.c_str(), kLogFlags, 0600)), paths.log));
  SMELTR_ASSIGN_OR_RETURN(plan.null, MoveUp(Fd(::open("/dev/null", O_RDWR | O_CLOEXEC)), "/dev/null"));
  return plan;
}

// In the forked child: becomes the daemon, in a session of its own and nobody's child.
[[noreturn]] void BecomeDaemon(const StartPlan& plan, char* const* argv, char* const* environment,
                               char* const* shorter_environment, int ready) {
  ::setsid();
  if (::fork() != 0) ::_exit(0);
  ::dup2(plan.null.get(), STDIN_FILENO);
  ::dup2(plan.log.get(), STDOUT_FILENO);
  ::dup2(plan.log.get(), STDERR_FILENO);
  ::dup2(ready, kReadyFd);
  ::close_range(kReadyFd + 1, ~0U, 0);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  for (int signal = 1; signal < 32; ++signal) ::signal(signal, SIG_DFL);
  if (::chdir("/") == 0) {
    ::execve(plan.program.c_str(), argv, environment);
    if (errno == E2BIG) ::execve(plan.program.c_str(), argv, shorter_environment);
  }
  ::_exit(127);
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// Starts it; the result is readable when it is ready, or at its end when it gave up.
Result<Fd> StartDaemon(const StartPlan& plan) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot make a pipe: {}", ::strerror(errno)));
  }
  Fd read_end(ends[0]);
  SMELTR_ASSIGN_OR_RETURN(const Fd write_end, MoveUp(Fd(ends[1]), "a pipe"));
  const auto argv = Pointers(plan.argv);
  const auto environment = Pointers(plan.environment);
  const auto shorter = Pointers(plan.shorter_environment);
  const pid_t pid = ::fork();
  if (pid < 0) return Fail(ErrorCode::kIo, fmt::format("cannot start a process: {}", ::strerror(errno)));
  if (pid == 0) BecomeDaemon(plan, argv.data(), environment.data(), shorter.data(), write_end.get());
  while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
  return read_end;
}

void WaitReadable(int fd, uint64_t deadline_ns) {
  while (true) {
    const uint64_t now_ns = MonotonicNowNs();
    if (now_ns >= deadline_ns) return;
    pollfd entry{fd, POLLIN, 0};
    if (::poll(&entry, 1, static_cast<int>((deadline_ns - now_ns) / 1'000'000 + 1)) != -1) return;
  }
}

bool NobodyThere(const Error& error) {
  return error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kUnavailable;
}

void Pause(uint64_t ns) {
  const timespec pause{0, static_cast<long>(ns)};
  ::nanosleep(&pause, nullptr);
}

// To the daemon that is there. An error with NobodyThere(): none is, or not yet, or it is about to end.
Result<ipc::Client> ConnectIfThere(const Paths& paths, std::string_view role, uint64_t deadline_ns) {
  const uint64_t begun_ns = MonotonicNowNs();
  while (true) {
    const uint64_t asked_ns = MonotonicNowNs();
    auto client = ipc::Client::Connect(paths.socket, role, kAskLimitMs);
    if (client.has_value() || !NobodyThere(client.error())) return client;
    const uint64_t now_ns = MonotonicNowNs();
    const bool silent = now_ns - asked_ns >= uint64_t{kAskLimitMs} * 1'000'000;
    const auto holder = FindLockHolder(paths.lock);
    if (!holder.has_value() || (!silent && !holder->stopped())) return client;
    const bool mute = !holder->works() && now_ns - begun_ns >= uint64_t{kMuteLimitMs} * 1'000'000;
    if (mute || now_ns >= deadline_ns) {
      return Fail(ErrorCode::kIo,
                  fmt::format("smeltrd, pid {}, does not answer{}", holder->pid,
                              holder->stopped() ? ": it is stopped (kill -CONT)"
                                                : "; `smeltr daemon restart --force` replaces it"));
    }
    if (!silent) Pause(kFirstPauseNs);
  }
}

}  // namespace

bool DaemonAnswers(const Paths& paths, int limit_ms) {
  const uint64_t asked_ns = MonotonicNowNs();
  const auto client = ipc::Client::Connect(paths.socket, "record", limit_ms);
  if (client.has_value() || !NobodyThere(client.error())) return true;
  const bool silent = MonotonicNowNs() - asked_ns >= static_cast<uint64_t>(limit_ms) * 1'000'000;
  const auto holder = FindLockHolder(paths.lock);
  if (!holder.has_value()) return !silent;
  return holder->works() || (!silent && !holder->stopped());
}

std::filesystem::path SiblingDaemon() {
  std::error_code error;
  return std::filesystem::read_symlink("/proc/self/exe", error).parent_path() / "smeltrd";
}

Result<ipc::Client> ConnectOrStart(const Paths& paths, const std::filesystem::path& daemon_program,
                                   std::string_view role, const StartOptions& options) {
  const uint64_t deadline_ns = MonotonicNowNs() + static_cast<uint64_t>(options.limit_ms) * 1'000'000;
  auto client = ConnectIfThere(paths, role, deadline_ns);
  if (client.has_value() || !NobodyThere(client.error())) return client;
  // Its manager would otherwise start a second one, in vain.
  if (IsInstalledFor(paths.home) && StartService().has_value()) {
    client = ConnectIfThere(paths, role, deadline_ns);
    if (client.has_value()) return client;
  }
  SMELTR_ASSIGN_OR_RETURN(const StartPlan plan, PlanStart(paths, daemon_program, options));
  for (uint64_t pause_ns = kFirstPauseNs; MonotonicNowNs() < deadline_ns;
       pause_ns = std::min(2 * pause_ns, kLongestPauseNs)) {
    SMELTR_ASSIGN_OR_RETURN(const Fd ready, StartDaemon(plan));
    WaitReadable(ready.get(), deadline_ns);
    client = ConnectIfThere(paths, role, deadline_ns);
    if (client.has_value() || !NobodyThere(client.error())) return client;
    // Another process's daemon holds the lock and is about to listen, or is about to end: once more.
    Pause(pause_ns);
  }
  return Fail(ErrorCode::kUnavailable, fmt::format("smeltrd did not start within {} s: see {}",
                                                   options.limit_ms / 1000, paths.log.native()));
}

bool EndsWhenIdle(pid_t daemon_pid) {
  const auto command = ReadFile(fmt::format("/proc/{}/cmdline", daemon_pid));
  return command.has_value() && command->find(kIdleExitOption) != std::string::npos;
}

}  // namespace smeltr::launch
