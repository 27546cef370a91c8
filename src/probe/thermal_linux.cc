#include <algorithm>
#include <array>

#include "base/clock.h"
#include "probe/directory.h"
#include "probe/emit.h"
#include "probe/proc_text.h"
#include "probe/sampled_file.h"
#include "probe/thermal.h"

namespace smeltr::probe {
namespace {

constexpr uint64_t kRescanNs = 300 * kNsPerSecond;
// What a broken sensor may say is outside of that.
constexpr double kColdestC = -60;
constexpr double kHottestC = 200;

struct Sensor {
  std::string name;
  SampledFile file;
  double slowdown_c = 0;  // 0: not known.
  double critical_c = 0;
};

std::string ReadWord(const std::string& path) {
  std::array<char, 128> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
  std::string_view text = ReadSmallFile(path, buffer).value_or("");
  return std::string(TakeLine(text));
}

// Sysfs has thousandths of a degree.
std::optional<double> ParseTemperature(std::string_view text) {
  const bool negative = text.starts_with('-');
  const auto value = LeadingNumber(negative ? text.substr(1) : text);
  if (!value.has_value()) return std::nullopt;
  const double degrees = static_cast<double>(*value) / (negative ? -1000 : 1000);
  if (degrees < kColdestC || degrees > kHottestC) return std::nullopt;
  return degrees;
}

double ReadTemperature(const std::string& path) {
  return std::max(ParseTemperature(ReadWord(path)).value_or(0), 0.0);
}

void AddZones(const std::string& directory, std::vector<Sensor>& sensors) {
  for (const std::string& zone : ListNames(directory, "thermal_zone")) {
    const std::string at = directory + "/" + zone + "/";
    Sensor sensor{.name = ReadWord(at + "type"), .file = SampledFile(at + "temp")};
    for (const std::string& trip : ListNames(at, "trip_point_")) {
      if (!trip.ends_with("_type")) continue;
      const std::string type = ReadWord(at + trip);
      const double limit_c = ReadTemperature(at + trip.substr(0, trip.size() - 4) + "temp");
      if (limit_c <= 0) continue;
      double* known = type == "critical" ? &sensor.critical_c : nullptr;
      if (type == "passive" || type == "hot") known = &sensor.slowdown_c;
      if (known != nullptr) *known = *known == 0 ? limit_c : std::min(*known, limit_c);
    }
    sensors.push_back(std::move(sensor));
  }
}

void AddMonitors(const std::string& directory, std::vector<Sensor>& sensors) {
  for (const std::string& monitor : ListNames(directory, "hwmon")) {
    const std::string at = directory + "/" + monitor + "/";
    const std::string device = ReadWord(at + "name");
    for (const std::string& input : ListNames(at, "temp")) {
      if (!input.ends_with("_input")) continue;
      const std::string stem = at + input.substr(0, input.size() - 5);
      const std::string label = ReadWord(stem + "label");
      Sensor sensor{.name = label.empty() ? device : device + " " + label, .file = SampledFile(at + input)};
      // With a critical limit and no other, slowing down begins there; an emergency one is beyond it.
      const double emergency_c = ReadTemperature(stem + "emergency");
      const double critical_c = ReadTemperature(stem + "crit");
      sensor.slowdown_c = emergency_c > 0 ? critical_c : ReadTemperature(stem + "max");
      sensor.critical_c = emergency_c > 0 ? emergency_c : critical_c;
      sensors.push_back(std::move(sensor));
    }
  }
}

class ThermalProbe : public Probe {
 public:
  ThermalProbe(std::shared_ptr<GpuLedger> ledger, Roots roots)
      : ledger_(std::move(ledger)), roots_(std::move(roots)) {}

  std::string_view name() const override { return "thermal"; }
  uint64_t period_ns() const override { return 2 * kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    if (scanned_ns_ == 0 || context.now_ns - scanned_ns_ >= kRescanNs) {
      scanned_ns_ = context.now_ns;
      sensors_.clear();
      AddZones(roots_.sys + "/class/thermal", sensors_);
      AddMonitors(roots_.sys + "/class/hwmon", sensors_);
    }
    std::optional<GpuLedger::Heat> worst = Worst();
    if (auto gpu = ledger_->FindHeat(context.now_ns)) {
      if (!worst.has_value() || IsWorse(*gpu, *worst)) worst = std::move(gpu);
    }
    if (!worst.has_value()) {
      scanned_ns_ = 0;
      return {Health::kAbsent, "no temperature sensors here"};
    }
    if (news_.IsDue(context, worst->level, worst->throttle_reasons)) {
      sink.Emit(
          MakeEvent(context.now_ns, 0,
                    event::ThermalState{.level = ThermalLevelName(worst->level),
                                        .temperature_c = worst->temperature_c,
                                        .sensor = std::string_view(worst->sensor),
                                        .throttle_reasons = std::string_view(worst->throttle_reasons)}));
    }
    return {};
  }

 private:
  static bool IsWorse(const GpuLedger::Heat& a, const GpuLedger::Heat& b) {
    return a.level != b.level ? a.level > b.level : a.temperature_c > b.temperature_c;
  }

  std::optional<GpuLedger::Heat> Worst() {
    std::optional<GpuLedger::Heat> worst;
    std::array<char, 64> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
    for (Sensor& sensor : sensors_) {
      const auto text = sensor.file.Read(buffer);
      const auto temperature_c = text.has_value() ? ParseTemperature(*text) : std::nullopt;
      if (!temperature_c.has_value()) continue;
      GpuLedger::Heat heat{.level = ThermalLevel(*temperature_c, sensor.slowdown_c, sensor.critical_c),
                           .temperature_c = *temperature_c,
                           .sensor = sensor.name,
                           .throttle_reasons = {}};
      if (!worst.has_value() || IsWorse(heat, *worst)) worst = std::move(heat);
    }
    return worst;
  }

  std::shared_ptr<GpuLedger> ledger_;
  Roots roots_;
  std::vector<Sensor> sensors_;
  uint64_t scanned_ns_ = 0;
  ThermalNews news_;
};

}  // namespace

std::unique_ptr<Probe> MakeThermalProbe(std::shared_ptr<GpuLedger> ledger, const Roots& roots) {
  return std::make_unique<ThermalProbe>(std::move(ledger), roots);
}

}  // namespace smeltr::probe
