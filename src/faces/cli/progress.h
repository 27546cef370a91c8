// How far long work has come: one line on stderr, only where that is a terminal, gone when the work is done.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace smeltr::faces::cli {

class ProgressLine {
 public:
  // "verifying": what is being done.
  explicit ProgressLine(std::string_view work);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // As often as one likes; shown a few times a second, and first when it has taken a while.
  void Update(uint64_t done_bytes, uint64_t total_bytes);
  // Before anything else is printed.
  void Clear();

 private:
  std::string work_;
  bool terminal_;
  bool shown_ = false;
  uint64_t next_ns_;
};

}  // namespace smeltr::faces::cli
