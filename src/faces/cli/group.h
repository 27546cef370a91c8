// A command of commands: `smeltr sessions ls`, `smeltr daemon start`.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "faces/cli/command.h"

namespace smeltr::faces::cli {

struct GroupText {
  std::string name;
  std::string help;
  std::string examples;
};

// `parts` in the order of its help.
std::unique_ptr<Command> MakeGroup(GroupText text, std::vector<std::unique_ptr<Command>> parts);

}  // namespace smeltr::faces::cli
