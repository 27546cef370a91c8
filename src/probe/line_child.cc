#include "probe/line_child.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <utility>

extern char** environ;

namespace smeltr::probe {
namespace {

constexpr size_t kMaxLineBytes = size_t{256} << 10;

// The shell gives up its own copy of the output, so that the end of the program is the end of the output.
constexpr const char* kScript =
    R"("$@" & child=$!; exec >/dev/null; read -r _; kill -9 "$child" 2>/dev/null; wait "$child")";

bool SetFlags(const Fd& fd, bool non_blocking) {
  return ::fcntl(fd.get(), F_SETFD, FD_CLOEXEC) == 0 &&
         (!non_blocking || ::fcntl(fd.get(), F_SETFL, O_NONBLOCK) == 0);
}

}  // namespace

LineChild::LineChild(pid_t pid, Fd output, Fd lifeline)
    : pid_(pid), output_(std::move(output)), lifeline_(std::move(lifeline)) {}

LineChild::LineChild(LineChild&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      lifeline_(std::move(other.lifeline_)),
      buffer_(std::move(other.buffer_)),
      skipping_(other.skipping_) {}

LineChild::~LineChild() {
  if (pid_ < 0) return;
  lifeline_.Reset();
  output_.Reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) continue;
}

Result<LineChild> LineChild::Start(const std::vector<std::string>& argv) {
  int output_ends[2];
  if (::pipe(output_ends) != 0) return Fail(ErrorCode::kIo, "cannot make a pipe");
  Fd output(output_ends[0]);
  const Fd output_far(output_ends[1]);
  int lifeline_ends[2];
  if (::pipe(lifeline_ends) != 0) return Fail(ErrorCode::kIo, "cannot make a pipe");
  const Fd lifeline_far(lifeline_ends[0]);
  Fd lifeline(lifeline_ends[1]);
  if (!SetFlags(output, true) || !SetFlags(output_far, false) || !SetFlags(lifeline_far, false) ||
      !SetFlags(lifeline, false)) {
    return Fail(ErrorCode::kIo, "cannot set up a pipe");
  }
  std::vector<std::string> words = {"/bin/sh", "-c", kScript, "sh"};
  words.insert(words.end(), argv.begin(), argv.end());
  std::vector<char*> pointers;
  pointers.reserve(words.size() + 1);
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  posix_spawn_file_actions_t actions;
  posix_spawnattr_t attributes;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawnattr_init(&attributes);
  ::posix_spawn_file_actions_adddup2(&actions, lifeline_far.get(), STDIN_FILENO);
  ::posix_spawn_file_actions_adddup2(&actions, output_far.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  // A group of its own: Ctrl-C in a terminal is for us to handle. And no signal stays blocked or ignored.
  sigset_t all;
  sigset_t none;
  sigfillset(&all);
  sigdelset(&all, SIGKILL);
  sigdelset(&all, SIGSTOP);
  sigemptyset(&none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  pid_t pid = -1;
  const int failure = ::posix_spawn(&pid, "/bin/sh", &actions, &attributes, pointers.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (failure != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot start {}: {}", argv.front(), ::strerror(failure)));
  }
  return LineChild(pid, std::move(output), std::move(lifeline));
}

bool LineChild::Fill() {
  char chunk[16 * 1024];
  while (buffer_.size() < kMaxLineBytes) {
    const ssize_t count = ::read(output_.get(), chunk, sizeof(chunk));
    if (count > 0) {
      buffer_.append(chunk, static_cast<size_t>(count));
    } else if (count == 0) {
      return false;
    } else if (errno != EINTR) {
      return errno == EAGAIN || errno == EWOULDBLOCK;
    }
  }
  return true;
}

bool LineChild::Read(size_t max_lines, std::vector<std::string>& lines) {
  const bool open = Fill();
  size_t begin = 0;
  for (size_t taken = 0; taken < max_lines;) {
    const size_t end = buffer_.find('\n', begin);
    if (end == std::string::npos) break;
    if (!std::exchange(skipping_, false)) {
      lines.push_back(buffer_.substr(begin, end - begin));
      ++taken;
    }
    begin = end + 1;
  }
  buffer_.erase(0, begin);
  if (buffer_.size() >= kMaxLineBytes && buffer_.find('\n') == std::string::npos) {
    skipping_ = true;
    buffer_.clear();
  }
  return open || buffer_.find('\n') != std::string::npos;
}

}  // namespace smeltr::probe
