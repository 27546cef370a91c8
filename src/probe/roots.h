// Where a probe looks. Tests put trees of their own there.
#pragma once

#include <string>

namespace smeltr::probe {

struct Roots {
  std::string proc = "/proc";
  std::string sys = "/sys";
};

}  // namespace smeltr::probe
