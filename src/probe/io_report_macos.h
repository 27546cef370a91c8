// macOS's own counters of the GPU, read through libIOReport, which has no header: opened at run time, so that
// a system without it, or with another one, costs the figures and no more.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

namespace smeltr::probe {

struct IoReportFigures {
  std::optional<double> gpu_residency_pct;
  std::optional<double> gpu_energy_mj;  // Since the reading before.
};

// Not thread-safe.
class IoReport {
 public:
  // Null, and why, when it cannot be used.
  static std::unique_ptr<IoReport> Open(std::string& reason);
  ~IoReport();
  IoReport(const IoReport&) = delete;
  IoReport& operator=(const IoReport&) = delete;

  // Since the reading before; nothing in the first one.
  IoReportFigures Read();

 private:
  IoReport();
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace smeltr::probe
