// `smeltr sessions`: its parts are sessions_*.cc.
#include "faces/cli/commands/sessions.h"

#include <utility>
#include <vector>

#include "faces/cli/group.h"

namespace smeltr::faces::cli {

std::unique_ptr<Command> MakeSessions() {
  std::vector<std::unique_ptr<Command>> parts;
  for (const MakeCommand make : {MakeSessionsLs, MakeSessionsShow, MakeSessionsVerify, MakeSessionsRepair,
                                 MakeSessionsPin, MakeSessionsUnpin, MakeSessionsRm, MakeSessionsPrune}) {
    parts.push_back(make());
  }
  return MakeGroup(
      {"sessions", "List, show, check, keep and delete recorded sessions",
       "Examples:\n  smeltr sessions ls\n  smeltr sessions show --last\n  smeltr sessions prune"},
      std::move(parts));
}

}  // namespace smeltr::faces::cli
