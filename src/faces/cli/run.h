// The command line as a function, so that tests can call it.
#pragma once

#include "faces/cli/console.h"

namespace smeltr::faces::cli {

// Parses, runs the command, reports errors through `console`. Returns the exit status.
int Run(int argc, const char* const* argv, Console& console);

}  // namespace smeltr::faces::cli
