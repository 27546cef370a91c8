// The GPU on macOS: IoReportSample, where the system tells residency or energy; no data, no event.
#pragma once

#include <memory>

#include "probe/probe.h"

namespace smeltr::probe {

std::unique_ptr<Probe> MakeIoReportProbe();

}  // namespace smeltr::probe
