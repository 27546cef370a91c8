#include "launch/child.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <utility>

#include "base/clock.h"
#include "util/file.h"

namespace smeltr::launch {
namespace {

constexpr size_t kInterruptsToDetach = 3;
constexpr uint64_t kDetachWindowNs = 2 * kNsPerSecond;

Result<std::pair<Fd, Fd>> MakePipe() {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot make a pipe: {}", ::strerror(errno)));
  }
  return std::pair(Fd(ends[0]), Fd(ends[1]));
}

// Reads one value; false at the end of the file.
template <typename T>
bool ReadValue(int fd, T& value) {
  ssize_t count = 0;
  do {
    count = ::read(fd, &value, sizeof(value));
  } while (count < 0 && errno == EINTR);
  return count == static_cast<ssize_t>(sizeof(value));
}

std::vector<char*> Pointers(const std::vector<std::string>& strings) {
  std::vector<char*> pointers;
  pointers.reserve(strings.size() + 1);
  for (const std::string& string : strings) pointers.push_back(const_cast<char*>(string.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

uint64_t ToNs(const timeval& time) {
  return static_cast<uint64_t>(time.tv_sec) * kNsPerSecond + static_cast<uint64_t>(time.tv_usec) * 1000;
}

ExitStatus MakeExitStatus(int status, const rusage& usage) {
  ExitStatus result;
  if (WIFSIGNALED(status)) {
    result.term_signal = WTERMSIG(status);
    result.core_dumped = WCOREDUMP(status);
  } else {
    result.exit_code = WEXITSTATUS(status);
  }
  result.max_rss_bytes = static_cast<uint64_t>(usage.ru_maxrss) * 1024;
  result.user_cpu_ns = ToNs(usage.ru_utime);
  result.system_cpu_ns = ToNs(usage.ru_stime);
  return result;
}

bool IsPending(int signal) {
  sigset_t pending;
  return ::sigpending(&pending) == 0 && sigismember(&pending, signal) == 1;
}

}  // namespace

bool InterruptCounter::Add(uint64_t now_ns) {
  std::erase_if(times_, [&](uint64_t time_ns) { return now_ns - time_ns > kDetachWindowNs; });
  times_.push_back(now_ns);
  return times_.size() >= kInterruptsToDetach;
}

int ShellStatus(const ExitStatus& status) {
  if (status.term_signal.has_value()) return 128 + *status.term_signal;
  return status.exit_code.value_or(128 + SIGINT);
}

SignalGuard::SignalGuard() {
  sigemptyset(&watched_);
  sigaddset(&watched_, SIGCHLD);
  for (const int signal : {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGTSTP, SIGCONT}) {
    // What record was told to ignore (nohup, background jobs) stays ignored; a blocked one would not.
    struct sigaction current{};
    ::sigaction(signal, nullptr, &current);
    if (current.sa_handler != SIG_IGN) sigaddset(&watched_, signal);
  }
  ::sigprocmask(SIG_SETMASK, nullptr, &previous_mask_);
  // With SIGCHLD ignored, as some starters leave it, the system would throw the child's status away.
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &action, &previous_child_action_);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGPIPE, &action, &previous_pipe_action_);
  ::sigaction(SIGXFSZ, &action, &previous_size_action_);
}

void SignalGuard::BlockWatched() const { ::sigprocmask(SIG_BLOCK, &watched_, nullptr); }

void SignalGuard::Restore() const {
  ::sigaction(SIGXFSZ, &previous_size_action_, nullptr);
  ::sigaction(SIGPIPE, &previous_pipe_action_, nullptr);
  ::sigaction(SIGCHLD, &previous_child_action_, nullptr);
  ::sigprocmask(SIG_SETMASK, &previous_mask_, nullptr);
}

Result<Child> Child::SpawnHeld(const Command& command, const SignalGuard& signals) {
  SMELTR_ASSIGN_OR_RETURN(auto hold, MakePipe());
  SMELTR_ASSIGN_OR_RETURN(auto failure, MakePipe());
  // Everything that allocates happens before the fork.
  const std::vector<char*> arguments = Pointers(command.argv);
  const std::vector<char*> environment = Pointers(command.environment);
  const std::vector<char*> shorter_environment = Pointers(command.shorter_environment);
  std::vector<char*> shell_arguments = arguments;
  shell_arguments.front() = const_cast<char*>(command.executable.c_str());
  shell_arguments.insert(shell_arguments.begin(), const_cast<char*>("sh"));

  signals.BlockWatched();
  const pid_t pid = ::fork();
  if (pid < 0) return Fail(ErrorCode::kIo, fmt::format("cannot start a process: {}", ::strerror(errno)));
  if (pid == 0) {
    hold.second.Reset();
    char go = 0;
    if (!ReadValue(hold.first.get(), go)) ::_exit(125);  // record is gone: so is its child.
    signals.Restore();
    ::execve(command.executable.c_str(), arguments.data(), environment.data());
    int reason = errno;
    if (reason == E2BIG && !command.shorter_environment.empty()) {
      ::execve(command.executable.c_str(), arguments.data(), shorter_environment.data());
      reason = errno;
    }
    // A script without "#!", which every shell runs as one of its own.
    if (reason == ENOEXEC) {
      ::execve("/bin/sh", shell_arguments.data(), environment.data());
    }
    [[maybe_unused]] const ssize_t told = ::write(failure.second.get(), &reason, sizeof(reason));
    ::_exit(reason == ENOENT ? 127 : 126);
  }
  Child child(pid);
  child.hold_ = std::move(hold.second);
  child.exec_failure_ = std::move(failure.first);
  return child;
}

Child::~Child() {
  if (pid_ < 0 || !hold_.valid()) return;
  ::kill(pid_, SIGKILL);
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Result<void> Child::Release() {
  const char go = 1;
  // A failing write means that the held child was killed; waiting for it tells.
  [[maybe_unused]] const ssize_t written = ::write(hold_.get(), &go, 1);
  hold_.Reset();
  int reason = 0;
  const bool failed = ReadValue(exec_failure_.get(), reason);
  exec_failure_.Reset();
  if (!failed) return {};
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
  return std::unexpected(SystemError("run", "the program", reason));
}

ExitStatus Child::Wait(const SignalGuard& signals, Companion* companion) {
  InterruptCounter interrupts;
  const Fd incoming(::signalfd(-1, &signals.watched(), SFD_CLOEXEC | SFD_NONBLOCK));
  while (true) {
    if (const auto status = Reap()) return *status;
    std::array<pollfd, 2> waiting{pollfd{incoming.get(), POLLIN, 0}, pollfd{-1, POLLIN, 0}};
    if (companion != nullptr) waiting[1].fd = companion->fd();
    const int ready =
        ::poll(waiting.data(), waiting.size(), companion == nullptr ? -1 : companion->timeout_ms());
    if (ready < 0) continue;
    signalfd_siginfo info{};
    while (::read(incoming.get(), &info, sizeof(info)) == static_cast<ssize_t>(sizeof(info))) {
      // SI_USER, SI_QUEUE, SI_TKILL; the kernel's are positive.
      const bool from_process = info.ssi_code <= 0;
      if (Forward(static_cast<int>(info.ssi_signo), from_process, interrupts)) return {};
    }
    if (companion != nullptr && (ready == 0 || waiting[1].revents != 0)) companion->Attend();
  }
}

bool Child::Forward(int signal, bool from_process, InterruptCounter& interrupts) const {
  switch (signal) {
    case SIGINT:
      if (interrupts.Add(MonotonicNowNs())) return true;
      [[fallthrough]];
    case SIGQUIT:
    case SIGTSTP:
      if (from_process) ::kill(pid_, signal);
      break;
    case SIGTERM:
    case SIGHUP:
    case SIGUSR1:
    case SIGUSR2:
    case SIGCONT:
      ::kill(pid_, signal);
      break;
    default:  // SIGCHLD: look at the child.
      break;
  }
  return false;
}

std::optional<ExitStatus> Child::Reap() {
  int status = 0;
  rusage usage{};
  const pid_t reaped = ::wait4(pid_, &status, WNOHANG | WUNTRACED, &usage);
  if (reaped != pid_) return std::nullopt;
  if (!WIFSTOPPED(status)) return MakeExitStatus(status, usage);
  StopWithChild();
  return std::nullopt;
}

// The shell watches record, not the child: to see the job stopped, record must stop too.
void Child::StopWithChild() {
  // Continued meanwhile: stopping now would miss the wake-up call.
  if (!IsPending(SIGCONT)) ::raise(SIGSTOP);
  ::kill(pid_, SIGCONT);
}

}  // namespace smeltr::launch
