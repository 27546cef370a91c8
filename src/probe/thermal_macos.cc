#include <array>
#include <utility>

#include "base/clock.h"
#include "probe/emit.h"
#include "probe/thermal.h"

// Of libSystem's notify.h.
extern "C" {
uint32_t notify_register_check(const char* name, int* out_token);
uint32_t notify_get_state(int token, uint64_t* state);
uint32_t notify_cancel(int token);
}

namespace smeltr::probe {
namespace {

constexpr const char* kPressureKey = "com.apple.system.thermalpressurelevel";
constexpr int kNoToken = -1;

std::string_view PressureName(uint64_t level) {
  static constexpr std::array<std::string_view, 5> kNames = {"nominal", "moderate", "heavy", "trapping",
                                                             "sleeping"};
  return level < kNames.size() ? kNames.at(level) : std::string_view("unknown");
}

class ThermalProbe : public Probe {
 public:
  ThermalProbe() = default;
  ~ThermalProbe() override {
    if (token_ != kNoToken) ::notify_cancel(token_);
  }
  ThermalProbe(const ThermalProbe&) = delete;
  ThermalProbe& operator=(const ThermalProbe&) = delete;

  std::string_view name() const override { return "thermal"; }
  uint64_t period_ns() const override { return 2 * kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    if (token_ == kNoToken && ::notify_register_check(kPressureKey, &token_) != 0) token_ = kNoToken;
    uint64_t level = 0;
    if (token_ == kNoToken || ::notify_get_state(token_, &level) != 0) {
      return {Health::kFailed, "the system does not tell its thermal pressure"};
    }
    if (news_.IsDue(context, static_cast<int>(level), {})) {
      event::ThermalState sample;
      sample.level = PressureName(level);
      sink.Emit(MakeEvent(context.now_ns, 0, sample));
    }
    return {};
  }

 private:
  int token_ = kNoToken;
  ThermalNews news_;
};

}  // namespace

std::unique_ptr<Probe> MakeThermalProbe(std::shared_ptr<GpuLedger> /*ledger*/, const Roots& /*roots*/) {
  return std::make_unique<ThermalProbe>();
}

}  // namespace smeltr::probe
