#include <unistd.h>

#include "probe/proc.h"

namespace smeltr::probe {

// The listing has the registered name, twice as long as the kernel's.
std::string FullProcessName(const std::string& /*proc_root*/, const ProcessEntry& process) {
  return process.name;
}

std::string HiddenProcesses(const std::vector<ProcessEntry>& /*processes*/) {
  if (::geteuid() == 0) return {};
  return "what other users' processes use is hidden from all but root";
}

}  // namespace smeltr::probe
