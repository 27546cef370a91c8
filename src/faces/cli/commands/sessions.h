// The parts of `smeltr sessions`, in the order of its help.
#pragma once

#include <memory>

#include "faces/cli/command.h"

namespace smeltr::faces::cli {

std::unique_ptr<Command> MakeSessionsLs();
std::unique_ptr<Command> MakeSessionsShow();
std::unique_ptr<Command> MakeSessionsVerify();
std::unique_ptr<Command> MakeSessionsRepair();
std::unique_ptr<Command> MakeSessionsPin();
std::unique_ptr<Command> MakeSessionsUnpin();
std::unique_ptr<Command> MakeSessionsRm();
std::unique_ptr<Command> MakeSessionsPrune();

}  // namespace smeltr::faces::cli
