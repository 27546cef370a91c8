#include "probe/probe.h"

namespace smeltr::probe {

std::vector<std::unique_ptr<Probe>> MakeAllProbes() {
  std::vector<std::unique_ptr<Probe>> probes;
  return probes;
}

}  // namespace smeltr::probe
