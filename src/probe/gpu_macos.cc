#include "probe/gpu_macos.h"

#include <utility>

#include "base/clock.h"
#include "probe/emit.h"
#include "probe/io_report_macos.h"

namespace smeltr::probe {
namespace {

class IoReportProbe : public Probe {
 public:
  std::string_view name() const override { return "gpu"; }
  uint64_t period_ns() const override { return kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    if (report_ == nullptr) {
      std::string reason;
      report_ = IoReport::Open(reason);
      if (report_ == nullptr) return {Health::kFailed, std::move(reason)};
    }
    const IoReportFigures figures = report_->Read();
    const uint64_t elapsed_ns = context.now_ns - std::exchange(before_ns_, context.now_ns);
    if (!figures.gpu_residency_pct.has_value() && !figures.gpu_energy_mj.has_value()) return {};
    event::IoReportSample sample;
    sample.gpu_residency_pct = figures.gpu_residency_pct.value_or(0);
    if (figures.gpu_energy_mj.value_or(-1) >= 0 && elapsed_ns > 0) {
      sample.gpu_power_mw =
          static_cast<uint64_t>(figures.gpu_energy_mj.value_or(0) * 1e9 / static_cast<double>(elapsed_ns));
    }
    sink.Emit(MakeEvent(context.now_ns, 0, sample));
    return {};
  }

 private:
  std::unique_ptr<IoReport> report_;
  uint64_t before_ns_ = 0;
};

}  // namespace

std::unique_ptr<Probe> MakeIoReportProbe() { return std::make_unique<IoReportProbe>(); }

}  // namespace smeltr::probe
