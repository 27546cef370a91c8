// `smeltr daemon`: its parts are daemon_*.cc.
#include "faces/cli/commands/daemon.h"

#include <utility>
#include <vector>

#include "faces/cli/group.h"

namespace smeltr::faces::cli {

std::unique_ptr<Command> MakeDaemon() {
  std::vector<std::unique_ptr<Command>> parts;
  for (const MakeCommand make : {MakeDaemonStatus, MakeDaemonStart, MakeDaemonStop, MakeDaemonRestart,
                                 MakeDaemonInstall, MakeDaemonUninstall, MakeDaemonLogs}) {
    parts.push_back(make());
  }
  return MakeGroup({"daemon", "Start, stop, install and look at smeltrd, which writes the sessions",
                    "Examples:\n  smeltr daemon status\n  smeltr daemon install\n"
                    "`smeltr record` starts one when needed, which ends after a minute without work; one "
                    "that is started or installed by hand stays, and watches the machine all the time."},
                   std::move(parts));
}

}  // namespace smeltr::faces::cli
