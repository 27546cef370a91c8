#include <cstdio>
#include <exception>

#include "base/standard_fds.h"
#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "faces/cli/run.h"

int main(int argc, char** argv) {
  smeltr::OccupyStandardFds();
  smeltr::faces::cli::Console console(stdout, stderr);
  // The one boundary: out of memory and the like end as an error line, not as a crash.
  try {
    return smeltr::faces::cli::Run(argc, argv, console);
  } catch (const std::exception& error) {
    console.Warn(error.what());
    return smeltr::faces::cli::kExitFailed;
  }
}
