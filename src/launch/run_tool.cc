#include "launch/run_tool.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/clock.h"
#include "base/fd.h"

namespace smeltr::launch {
namespace {

constexpr size_t kMaxOutputBytes = 64 << 10;
constexpr int kLookMs = 20;
constexpr int kNotFoundStatus = 127;

// True while more may come.
bool ReadSome(int fd, std::string& output) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(fd, buffer.data(), buffer.size());
  if (count < 0) return errno == EAGAIN || errno == EINTR;
  const size_t room = kMaxOutputBytes - output.size();
  output.append(buffer.data(), std::min(static_cast<size_t>(count), room));
  return count > 0;
}

std::optional<int> Reap(pid_t pid, int flags) {
  int status = 0;
  if (::waitpid(pid, &status, flags) != pid) return std::nullopt;
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

[[noreturn]] void Become(char* const* argv, int output) {
  const int null = ::open("/dev/null", O_RDONLY);
  ::dup2(null, STDIN_FILENO);
  ::dup2(output, STDOUT_FILENO);
  ::dup2(output, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvp(argv[0], argv);
  ::_exit(errno == ENOENT ? kNotFoundStatus : 126);
}

}  // namespace

Result<ToolResult> RunTool(const std::vector<std::string>& argv, int limit_ms) {
  std::vector<char*> pointers;
  pointers.reserve(argv.size() + 1);
  for (const std::string& argument : argv) pointers.push_back(const_cast<char*>(argument.c_str()));
  pointers.push_back(nullptr);
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot make a pipe: {}", ::strerror(errno)));
  }
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  ::fcntl(read_end.get(), F_SETFL, O_NONBLOCK);
  const pid_t pid = ::fork();
  if (pid < 0) return Fail(ErrorCode::kIo, fmt::format("cannot start a process: {}", ::strerror(errno)));
  if (pid == 0) Become(pointers.data(), write_end.get());
  write_end.Reset();

  ToolResult result;
  std::optional<int> status;
  const uint64_t deadline_ns = MonotonicNowNs() + static_cast<uint64_t>(limit_ms) * 1'000'000;
  // Its end counts, not that of the pipe: something it started may keep that open.
  while (!status.has_value() && MonotonicNowNs() < deadline_ns) {
    pollfd entry{read_end.get(), POLLIN, 0};
    ::poll(&entry, 1, kLookMs);
    const bool open = ReadSome(read_end.get(), result.output);
    status = Reap(pid, open ? WNOHANG : 0);
  }
  if (!status.has_value()) {
    ::kill(pid, SIGKILL);
    while (::waitpid(pid, nullptr, 0) < 0 && errno == EINTR) continue;
    return Fail(ErrorCode::kUnavailable,
                fmt::format("`{}` did not end within {} s", fmt::join(argv, " "), limit_ms / 1000));
  }
  for (size_t before = result.output.size();; before = result.output.size()) {
    if (!ReadSome(read_end.get(), result.output) || result.output.size() == before) break;
  }
  if (*status == kNotFoundStatus && result.output.empty()) {
    return Fail(ErrorCode::kNotFound, fmt::format("there is no `{}` here", argv.front()));
  }
  result.status = *status;
  return result;
}

}  // namespace smeltr::launch
