// The names in a directory, sorted, those that begin with `prefix`; none when it cannot be read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace smeltr::probe {

std::vector<std::string> ListNames(const std::string& directory, std::string_view prefix);

}  // namespace smeltr::probe
