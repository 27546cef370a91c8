// Processes with rings for the daemon's tests.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <utility>

#include "ring/segment.h"
#include "ring/writer.h"

namespace smeltr::daemon {

// A forked process with a ring in `directory`: runs `work` with it, then stays until it is told to end.
class RingProcess {
 public:
  RingProcess(const std::filesystem::path& directory, const std::function<void(ring::Writer&)>& work,
              uint32_t block_count = 16) {
    int ready[2];
    int hold[2];
    EXPECT_EQ(::pipe(ready), 0);
    EXPECT_EQ(::pipe(hold), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::close(hold[1]);
      auto segment = ring::Segment::Create(directory.c_str(), {block_count});
      if (!segment.has_value()) ::_exit(1);
      ring::Writer writer;
      writer.Attach(&segment->header(), 1);
      work(writer);
      char byte = 1;
      if (::write(ready[1], &byte, 1) != 1) ::_exit(2);
      [[maybe_unused]] const ssize_t ended = ::read(hold[0], &byte, 1);
      ::_exit(0);
    }
    ::close(ready[1]);
    ::close(hold[0]);
    char byte = 0;
    EXPECT_EQ(::read(ready[0], &byte, 1), 1) << "the process made no ring";
    ::close(ready[0]);
    hold_ = hold[1];
  }
  ~RingProcess() { End(); }
  RingProcess(const RingProcess&) = delete;
  RingProcess& operator=(const RingProcess&) = delete;

  uint32_t pid() const { return static_cast<uint32_t>(pid_); }

  void End() {
    if (hold_ < 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    ::close(std::exchange(hold_, -1));
  }

 private:
  pid_t pid_ = -1;
  int hold_ = -1;
};

inline void WriteMarks(ring::Writer& writer, uint64_t count) {
  for (uint64_t i = 0; i < count; ++i) writer.Write(event::Api::kNone, event::Mark{"m", {}});
}

}  // namespace smeltr::daemon
