// The recorded program as a child process: held before its first instruction, then left alone. It has
// record's stdin, stdout, stderr, process group, signal mask and dispositions, as if started directly.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr::launch {

struct Command {
  std::string executable;         // The file.
  std::vector<std::string> argv;  // As typed, argv[0] included.
  std::vector<std::string> environment;
  // When the system takes no environment as long as that: instead of it. Empty: none.
  std::vector<std::string> shorter_environment{};
};

struct ExitStatus {
  std::optional<int> exit_code;  // One of the two is set, or neither: it was left running.
  std::optional<int> term_signal;
  bool core_dumped = false;
  uint64_t max_rss_bytes = 0;
  uint64_t user_cpu_ns = 0;
  uint64_t system_cpu_ns = 0;
};

// So many interrupts in so short a time are a user who wants out, not one who works with Ctrl-C.
class InterruptCounter {
 public:
  // True when this one, at `now_ns`, completes the series.
  bool Add(uint64_t now_ns);

 private:
  std::vector<uint64_t> times_;
};

// What a shell would return: 128 + signal for a death by signal.
int ShellStatus(const ExitStatus& status);

// The signals of record itself; restores everything at the end. Construct before any thread is started.
class SignalGuard {
 public:
  // From here on a stderr that nobody reads and a limit of file sizes do not kill, and a child's status is
  // not thrown away.
  SignalGuard();
  ~SignalGuard() { Restore(); }
  SignalGuard(const SignalGuard&) = delete;
  SignalGuard& operator=(const SignalGuard&) = delete;

  // From here on the watched signals wait for Child::Wait().
  void BlockWatched() const;
  const sigset_t& watched() const { return watched_; }
  // Also in the child before exec: it gets what record was started with.
  void Restore() const;

 private:
  sigset_t watched_{};
  sigset_t previous_mask_{};
  struct sigaction previous_child_action_{};
  struct sigaction previous_pipe_action_{};
  struct sigaction previous_size_action_{};
};

// What else wants attention while the child runs.
class Companion {
 public:
  virtual ~Companion() = default;
  virtual int fd() const = 0;          // Attend() when readable or closed; -1: none.
  virtual int timeout_ms() const = 0;  // Attend() after so long; -1: never.
  virtual void Attend() = 0;           // The child's signals wait meanwhile: be short.
};

class Child {
 public:
  // Blocks the watched signals and forks. The new process waits for Release() and has executed nothing of the
  // program yet.
  static Result<Child> SpawnHeld(const Command& command, const SignalGuard& signals);
  Child(Child&&) = default;
  // A child that was never released is killed.
  ~Child();

  pid_t pid() const { return pid_; }

  // Lets it execute the program. An error (kNotFound, kPermission, ...) means that the program did not
  // start and the child is gone.
  Result<void> Release();

  // Waits for the end and passes signals on: TERM, HUP, USR1, USR2 always, INT and QUIT only when a
  // process sent them (those of the terminal reach the child by themselves); stops when the child is
  // stopped. The third INT within two seconds leaves it running and returns.
  ExitStatus Wait(const SignalGuard& signals, Companion* companion = nullptr);

 private:
  explicit Child(pid_t pid) : pid_(pid) {}
  // Passes one on; true when it says to leave the child alone.
  bool Forward(int signal, bool from_process, InterruptCounter& interrupts) const;
  std::optional<ExitStatus> Reap();
  void StopWithChild();

  pid_t pid_ = -1;
  Fd hold_;          // Write end; a byte releases.
  Fd exec_failure_;  // Read end; carries errno when exec fails, closes when it works.
};

}  // namespace smeltr::launch
