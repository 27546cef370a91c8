// A helper program whose output is read line by line, without ever waiting for it. It ends with us however
// we end: a shell beside it waits for a pipe that only we hold, and stops it when the pipe breaks.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr::probe {

class LineChild {
 public:
  // argv[0] is a path. What the child writes to stderr is dropped.
  static Result<LineChild> Start(const std::vector<std::string>& argv);
  LineChild(LineChild&& other) noexcept;
  LineChild& operator=(LineChild&& other) = delete;
  ~LineChild();

  // Appends the lines that are there, at most `max_lines`. False when the child has closed its output and
  // everything was read. Lines longer than 256 KiB are left out.
  bool Read(size_t max_lines, std::vector<std::string>& lines);

 private:
  LineChild(pid_t pid, Fd output, Fd lifeline);
  bool Fill();

  pid_t pid_ = -1;
  Fd output_;
  Fd lifeline_;
  std::string buffer_;
  bool skipping_ = false;  // Inside a line that is too long.
};

}  // namespace smeltr::probe
