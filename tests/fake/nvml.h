// What the stand-in for NVIDIA's library (nvml.cc) answers; tests find it with dlsym.
#pragma once

#include "probe/nvml_abi.h"

namespace smeltr::fake {

struct NvmlState {
  int init_result = 0;
  unsigned init_count = 0;
  unsigned shutdown_count = 0;
  bool lost = false;
  bool absurd_counts = false;
  unsigned temperature_c = 61;
  unsigned long long reasons = 0;
  unsigned pid = 10;
  unsigned long long last_seen_us = 0;
};

}  // namespace smeltr::fake

extern "C" smeltr::fake::NvmlState* FakeNvmlState();
