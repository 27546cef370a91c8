#include "probe/thermal.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/clock.h"

namespace smeltr::probe {

std::string_view ThermalLevelName(int level) {
  static constexpr std::array<std::string_view, 4> kNames = {"nominal", "moderate", "heavy", "critical"};
  return kNames.at(static_cast<size_t>(std::clamp(level, 0, 3)));
}

int ThermalLevel(double temperature_c, double slowdown_c, double critical_c) {
  constexpr double kNearC = 5;
  if (critical_c > 0 && temperature_c >= critical_c) return 3;
  if (slowdown_c <= 0) return 0;
  if (temperature_c >= slowdown_c) return 2;
  return temperature_c >= slowdown_c - kNearC ? 1 : 0;
}

bool ThermalNews::IsDue(const Context& context, int level, std::string_view throttle_reasons) {
  constexpr uint64_t kQuietNs = 60 * kNsPerSecond;
  std::set<std::string, std::less<>> sessions;
  bool fresh = false;
  for (const Recorded& recorded : context.recordings) {
    sessions.insert(recorded.session_id);
    fresh |= !known_sessions_.contains(recorded.session_id);
  }
  known_sessions_ = std::move(sessions);
  if (!fresh && told_ns_ != 0 && context.now_ns - told_ns_ < kQuietNs && level == told_level_ &&
      throttle_reasons == told_reasons_) {
    return false;
  }
  told_ns_ = context.now_ns;
  told_level_ = level;
  told_reasons_ = throttle_reasons;
  return true;
}

}  // namespace smeltr::probe
