// From lines of `log stream --style ndjson` to events, at most 50 a second.
#pragma once

#include <cstdint>
#include <string_view>

#include "probe/probe.h"

namespace smeltr::probe {

class AppleLogEvents {
 public:
  // Times on both clocks are those of the reading. What is no entry is passed over.
  void Add(std::string_view json, uint64_t now_ns, uint64_t wall_now_ns, Sink& sink);

 private:
  uint64_t second_ = 0;
  uint32_t passed_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace smeltr::probe
