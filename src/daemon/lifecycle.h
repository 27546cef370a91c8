// From the lock to the orderly end of a daemon.
#pragma once

#include <cstdint>
#include <optional>

#include "base/fd.h"
#include "base/result.h"
#include "util/paths.h"

namespace smeltr::daemon {

// One daemon a home: an advisory lock held while the process lives. The lock decides; the pid written into
// the file is for people.
class HomeLock {
 public:
  // kAlreadyExists, with the holder's pid in the text, when another daemon has it.
  static Result<HomeLock> Acquire(const std::filesystem::path& file);

  // False when the file is gone or another one, with its home as a rule: then it keeps nobody out any more.
  bool IsInPlace() const;

 private:
  HomeLock(Fd fd, std::filesystem::path file) : fd_(std::move(fd)), file_(std::move(file)) {}
  Fd fd_;
  std::filesystem::path file_;
};

struct DaemonOptions {
  std::optional<uint64_t> idle_exit_ns;  // Ends after so long without recordings and connections.
  int ready_fd = -1;                     // Gets one byte when connections are accepted, then is closed.
};

// Runs until SIGTERM, SIGINT or the idle limit, or until `lock` is in place no more.
Result<void> RunDaemon(const Paths& paths, const DaemonOptions& options, const HomeLock& lock);

}  // namespace smeltr::daemon
