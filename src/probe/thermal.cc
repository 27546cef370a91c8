#include "probe/thermal.h"

#include <algorithm>
#include <array>

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

}  // namespace smeltr::probe
