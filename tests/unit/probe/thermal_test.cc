#include "probe/thermal.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "fake/event_list.h"
#include "fake/file_tree.h"
#include "fake/scratch.h"

namespace smeltr::probe {
namespace {

class ThermalTest : public fake::ScratchTest {
 protected:
  void WriteZone(const std::string& temperature) {
    const std::string at = "sys/class/thermal/thermal_zone0/";
    tree_.Write(at + "type", "x86_pkg_temp\n");
    tree_.Write(at + "temp", temperature + "\n");
    tree_.Write(at + "trip_point_0_type", "passive\n");
    tree_.Write(at + "trip_point_0_temp", "90000\n");
    tree_.Write(at + "trip_point_1_type", "critical\n");
    tree_.Write(at + "trip_point_1_temp", "100000\n");
  }
  Status Sample(uint64_t seconds) {
    context_.now_ns = seconds * kNsPerSecond;
    events_.Clear();
    return probe_->Sample(context_, events_);
  }

  fake::FileTree tree_{scratch()};
  std::shared_ptr<GpuLedger> ledger_ = std::make_shared<GpuLedger>();
  std::unique_ptr<Probe> probe_ = MakeThermalProbe(ledger_, tree_.roots());
  Context context_;
  fake::EventList events_;
};

TEST_F(ThermalTest, WithoutSensorsItIsAbsentAndLooksAgain) {
  EXPECT_EQ(Sample(10).health, Health::kAbsent);
  WriteZone("40000");
  EXPECT_EQ(Sample(12).health, Health::kOk);
  EXPECT_EQ(events_.size(), 1U);
}

TEST_F(ThermalTest, ToldOnChangeOnceAMinuteAndForEachRecording) {
  WriteZone("40000");
  Sample(10);
  const auto first = events_.Last<event::ThermalState>();
  EXPECT_EQ(first.level.view, "nominal");
  EXPECT_DOUBLE_EQ(first.temperature_c, 40);
  EXPECT_EQ(first.sensor.view, "x86_pkg_temp");
  WriteZone("80000");
  Sample(12);
  EXPECT_EQ(events_.size(), 0U);
  for (const auto& [temperature, level] : {std::pair{"86000", "moderate"}, std::pair{"91000", "heavy"},
                                           std::pair{"100500", "critical"}, std::pair{"50000", "nominal"}}) {
    WriteZone(temperature);
    Sample(14);
    EXPECT_EQ(events_.Last<event::ThermalState>().level.view, level);
  }
  Sample(73);
  EXPECT_EQ(events_.size(), 0U);
  Sample(74);
  EXPECT_EQ(events_.size(), 1U);
  context_.recordings.push_back(
      {.session_id = "s", .token = "", .root_pid = 1, .root_start_time_ticks = 1, .footprint_period_ns = 0});
  Sample(76);
  EXPECT_EQ(events_.size(), 1U);
  Sample(78);
  EXPECT_EQ(events_.size(), 0U);
}

TEST_F(ThermalTest, TheWorstSensorSpeaks) {
  WriteZone("89000");
  const std::string at = "sys/class/hwmon/hwmon3/";
  tree_.Write(at + "name", "amdgpu\n");
  tree_.Write(at + "temp1_input", "95000\n");
  tree_.Write(at + "temp1_label", "edge\n");
  tree_.Write(at + "temp1_crit", "110000\n");
  tree_.Write(at + "temp1_emergency", "115000\n");
  tree_.Write(at + "temp2_input", "999999\n");
  Sample(10);
  // Hotter, but far from its limit.
  EXPECT_EQ(events_.Last<event::ThermalState>().sensor.view, "x86_pkg_temp");
  tree_.Write(at + "temp1_input", "111000\n");
  Sample(12);
  EXPECT_EQ(events_.Last<event::ThermalState>().sensor.view, "amdgpu edge");
  EXPECT_EQ(events_.Last<event::ThermalState>().level.view, "heavy");
}

TEST_F(ThermalTest, TheGpuSpeaksToo) {
  ledger_->SetHeat(
      10 * kNsPerSecond,
      GpuLedger::Heat{.level = 2, .temperature_c = 60, .sensor = "GPU 0", .throttle_reasons = "hw_thermal"});
  EXPECT_EQ(Sample(10).health, Health::kOk);
  EXPECT_EQ(events_.Last<event::ThermalState>().level.view, "heavy");
  EXPECT_EQ(events_.Last<event::ThermalState>().sensor.view, "GPU 0");
  EXPECT_EQ(events_.Last<event::ThermalState>().throttle_reasons.view, "hw_thermal");
  // What it said long ago no longer counts.
  EXPECT_EQ(Sample(60).health, Health::kAbsent);
}

}  // namespace
}  // namespace smeltr::probe
