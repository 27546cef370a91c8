#include "probe/vm.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "fake/event_list.h"
#include "fake/file_tree.h"
#include "fake/scratch.h"

namespace smeltr::probe {
namespace {

constexpr char kMeminfo[] =
    "MemTotal: 1000 kB\nMemAvailable: 500 kB\nActive: 30 kB\nUnevictable: 1 kB\nSUnreclaim: 2 kB\n"
    "KernelStack: 3 kB\nPageTables: 4 kB\nSwapTotal: 100 kB\nSwapFree: 40 kB\nZswap: 5 kB\n";

class VmTest : public fake::ScratchTest {
 protected:
  VmTest() {
    tree_.Write("proc/meminfo", kMeminfo);
    tree_.Write("proc/vmstat", "pswpin 100\npswpout 200\npgmajfault 300\noom_kill 1\n");
    tree_.Write("proc/stat", "cpu  100 0 100 700 100 0 0 0\n");
    for (const char* resource : {"memory", "io", "cpu"}) WritePressure(resource, 1, 0, 10);
    tree_.Write("sys/block/zram0/mm_stat", "9 9 2048 0 0\n");
    tree_.Write("sys/block/vda/size", "1\n");
  }
  void WritePressure(const std::string& resource, int some, int full, int total) {
    tree_.Write("proc/pressure/" + resource, "some avg10=" + std::to_string(some) +
                                                 ".00 avg60=2.00 avg300=0.00 total=" + std::to_string(total) +
                                                 "\nfull avg10=" + std::to_string(full) +
                                                 ".00 avg60=0.50 avg300=0.00 total=3\n");
  }
  Status Sample(uint64_t seconds) {
    return probe_->Sample({.now_ns = seconds * kNsPerSecond, .recordings = {}}, events_);
  }

  fake::FileTree tree_{scratch()};
  std::unique_ptr<Probe> probe_ = MakeVmProbe(tree_.roots());
  fake::EventList events_;
};

TEST_F(VmTest, FieldsComeFromWhereTheyShould) {
  EXPECT_EQ(Sample(10).health, Health::kOk);
  const auto first = events_.Last<event::VmSample>();
  EXPECT_EQ(first.wired_bytes, 10U * 1024);
  EXPECT_EQ(first.active_bytes, 30U * 1024);
  EXPECT_EQ(first.compressed_bytes, 5U * 1024 + 2048);
  EXPECT_EQ(first.swap_used_bytes, 60U * 1024);
  EXPECT_EQ(first.total_bytes, 1000U * 1024);
  EXPECT_EQ(first.available_bytes, 500U * 1024);
  EXPECT_EQ(first.oom_kill_count, 1U);
  EXPECT_EQ(first.pressure.view, "normal");
}

TEST_F(VmTest, RatesNeedTwoReadings) {
  Sample(10);
  EXPECT_TRUE(std::isnan(events_.Last<event::VmSample>().page_outs_per_sec));
  tree_.Write("proc/vmstat", "pswpin 110\npswpout 260\npgmajfault 304\noom_kill 2\n");
  tree_.Write("proc/stat", "cpu  125 0 125 725 125 0 0 0\n");
  Sample(12);
  const auto second = events_.Last<event::VmSample>();
  EXPECT_DOUBLE_EQ(second.page_outs_per_sec, 30);
  EXPECT_DOUBLE_EQ(second.page_ins_per_sec, 5);
  EXPECT_DOUBLE_EQ(second.major_faults_per_sec, 2);
  EXPECT_DOUBLE_EQ(second.cpu_busy_pct, 50);
  EXPECT_EQ(second.oom_kill_count, 2U);
}

TEST_F(VmTest, PressureIsToldForEachResourceWhenItChanges) {
  Sample(10);
  const auto told = events_.All<event::PressureSample>();
  ASSERT_EQ(told.size(), 3U);
  EXPECT_EQ(told[0].resource.view, "memory");
  EXPECT_DOUBLE_EQ(told[0].some_pct, 1);
  EXPECT_DOUBLE_EQ(told[0].some_avg60_pct, 2);
  EXPECT_DOUBLE_EQ(told[0].full_avg60_pct, 0.5);
  EXPECT_EQ(told[0].some_total_us, 10U);
  EXPECT_EQ(told[0].full_total_us, 3U);
  events_.Clear();
  WritePressure("io", 5, 0, 11);
  Sample(11);
  ASSERT_EQ(events_.All<event::PressureSample>().size(), 1U);
  EXPECT_EQ(events_.Last<event::PressureSample>().resource.view, "io");
  events_.Clear();
  Sample(25);
  EXPECT_EQ(events_.All<event::PressureSample>().size(), 3U);
}

TEST_F(VmTest, StalledMemoryIsCritical) {
  WritePressure("memory", 60, 25, 99);
  Sample(10);
  EXPECT_EQ(events_.Last<event::VmSample>().pressure.view, "critical");
}

TEST_F(VmTest, WithoutStallFiguresItIsDegraded) {
  tree_.Remove("proc/pressure");
  const Status status = Sample(10);
  EXPECT_EQ(status.health, Health::kDegraded);
  EXPECT_NE(status.reason.find("psi=1"), std::string::npos);
  EXPECT_EQ(events_.All<event::VmSample>().size(), 1U);
  EXPECT_TRUE(events_.All<event::PressureSample>().empty());
}

TEST_F(VmTest, WithoutMeminfoItFails) {
  tree_.Remove("proc/meminfo");
  EXPECT_EQ(Sample(10).health, Health::kFailed);
  EXPECT_EQ(events_.size(), 0U);
}

TEST(PressureLevels, HaveTheirThresholds) {
  EXPECT_EQ(PressureLevel(100, 1000, 9, 4), "normal");
  EXPECT_EQ(PressureLevel(99, 1000, 0, 0), "warning");
  EXPECT_EQ(PressureLevel(500, 1000, 10, 0), "warning");
  EXPECT_EQ(PressureLevel(500, 1000, 9, 5), "warning");
  EXPECT_EQ(PressureLevel(19, 1000, 0, 0), "critical");
  EXPECT_EQ(PressureLevel(500, 1000, 0, 20), "critical");
  EXPECT_EQ(PressureLevel(0, 0, 0, 0), "normal");
}

}  // namespace
}  // namespace smeltr::probe
