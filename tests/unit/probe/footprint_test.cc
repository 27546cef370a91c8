#include "probe/footprint.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake/event_list.h"
#include "fake/fake_process.h"
#include "fake/scratch.h"

namespace smeltr::probe {
namespace {

class FootprintTest : public fake::ScratchTest {
 protected:
  FootprintTest() {
    Write(tree_, {.pid = 10, .start_time_ticks = 1000, .name = "root", .thread_count = 7, .environment = {}});
    Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001, .name = "worker"});
    WriteStatus(10, 100);
    WriteStatus(11, 200);
  }
  void WriteStatus(uint32_t pid, uint64_t anon_kb) {
    const std::string at = "proc/" + std::to_string(pid) + "/";
    tree_.Write(at + "status", "Name:\tx\nVmHWM:\t900 kB\nVmRSS:\t555 kB\nRssAnon:\t" +
                                   std::to_string(anon_kb) +
                                   " kB\nRssFile:\t50 kB\nRssShmem:\t5 kB\nVmPTE:\t3 kB\nVmSwap:\t2 kB\n");
    tree_.Write(at + "smaps_rollup", "0 [rollup]\nRss: 1 kB\nPss: 77 kB\n");
    tree_.Write(at + "oom_score", "666\n");
  }
  Status Sample(double seconds) {
    context_.now_ns = static_cast<uint64_t>(seconds * 1e9);
    events_.Clear();
    return probe_->Sample(context_, events_);
  }

  fake::FileTree tree_{scratch()};
  std::shared_ptr<RecordedTrees> trees_ = std::make_shared<RecordedTrees>(tree_.At("proc"));
  std::shared_ptr<GpuLedger> ledger_ = std::make_shared<GpuLedger>();
  std::unique_ptr<Probe> probe_ = MakeFootprintProbe(trees_, ledger_, tree_.roots());
  Context context_{.now_ns = 0,
                   .recordings = {{.session_id = "s",
                                   .token = "",
                                   .root_pid = 10,
                                   .root_start_time_ticks = 1000,
                                   .footprint_period_ns = 0}}};
  fake::EventList events_;
};

TEST_F(FootprintTest, EveryMemberIsMeasuredForItsSession) {
  ledger_->SetUses(10 * kNsPerSecond, {{11, {.used_bytes = 4096, .busy_pct = 50}}});
  EXPECT_EQ(Sample(10).health, Health::kOk);
  EXPECT_EQ(events_.Sessions(), (std::vector<std::string>{"s", "s"}));
  const auto all = events_.All<event::ProcFootprint>();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].target_pid, 10U);
  EXPECT_EQ(all[0].process_name.view, "root");
  EXPECT_TRUE(all[0].is_traced_root);
  EXPECT_EQ(all[0].phys_footprint_bytes, 110U * 1024);
  EXPECT_EQ(all[0].lifetime_max_phys_footprint_bytes, 900U * 1024);
  EXPECT_EQ(all[0].rss_bytes, 555U * 1024);
  EXPECT_EQ(all[0].file_bytes, 50U * 1024);
  EXPECT_EQ(all[0].swap_bytes, 2U * 1024);
  EXPECT_EQ(all[0].pss_bytes, 77U * 1024);
  EXPECT_EQ(all[0].thread_count, 7U);
  EXPECT_EQ(all[0].oom_score, 666U);
  EXPECT_EQ(all[0].gpu_bytes, 0U);
  EXPECT_FALSE(all[1].is_traced_root);
  EXPECT_EQ(all[1].gpu_bytes, 4096U);
  EXPECT_DOUBLE_EQ(all[1].gpu_busy_pct, 50);
}

TEST_F(FootprintTest, CpuIsWhatWasUsedSince) {
  Sample(10);
  const auto second = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  Write(tree_, {.pid = 10, .start_time_ticks = 1000, .user_ticks = second, .system_ticks = second / 2});
  Sample(12);
  EXPECT_DOUBLE_EQ(events_.All<event::ProcFootprint>().at(0).cpu_pct, 75);
}

TEST_F(FootprintTest, ProportionalSizeIsReadRarelyOrAfterGrowth) {
  Sample(10);
  Sample(12);
  EXPECT_EQ(events_.All<event::ProcFootprint>().at(0).pss_bytes, 0U);
  WriteStatus(10, 130);
  Sample(14);
  EXPECT_NE(events_.All<event::ProcFootprint>().at(0).pss_bytes, 0U);
  EXPECT_EQ(events_.All<event::ProcFootprint>().at(1).pss_bytes, 0U);
  Sample(16);
  Sample(18);
  EXPECT_EQ(events_.All<event::ProcFootprint>().at(1).pss_bytes, 0U);
  Sample(20);
  EXPECT_NE(events_.All<event::ProcFootprint>().at(1).pss_bytes, 0U);
}

TEST_F(FootprintTest, AZeroReadingIsNone) {
  tree_.Write("proc/11/status", "Name:\tworker\nThreads:\t1\n");
  Sample(10);
  EXPECT_EQ(events_.All<event::ProcFootprint>().size(), 1U);
  tree_.Remove("proc/10/status");
  EXPECT_EQ(Sample(12).health, Health::kOk);
  EXPECT_EQ(events_.size(), 0U);
}

TEST_F(FootprintTest, NothingIsWantedWithoutRecordings) {
  EXPECT_TRUE(probe_->Wanted(context_));
  context_.recordings.clear();
  EXPECT_FALSE(probe_->Wanted(context_));
}

TEST_F(FootprintTest, EachRecordingHasItsPeriod) {
  context_.recordings.push_back({.session_id = "fast",
                                 .token = "",
                                 .root_pid = 11,
                                 .root_start_time_ticks = 1001,
                                 .footprint_period_ns = kNsPerSecond / 2});
  Sample(10);
  EXPECT_EQ(events_.size(), 3U);
  EXPECT_EQ(probe_->period_ns(), kNsPerSecond / 2);
  Sample(10.5);
  EXPECT_EQ(events_.Sessions(), (std::vector<std::string>{"fast"}));
  Sample(10.7);
  EXPECT_EQ(events_.size(), 0U);
  Sample(12);
  EXPECT_EQ(events_.size(), 3U);
  context_.recordings.pop_back();
  Sample(14);
  EXPECT_EQ(probe_->period_ns(), kDefaultFootprintPeriodNs);
}

TEST_F(FootprintTest, ThePeriodComesFromTheEnvironment) {
  for (const auto& [text, ms] :
       std::vector<std::pair<std::string, uint64_t>>{{"500", 500},
                                                     {"0", 2000},
                                                     {"junk", 2000},
                                                     {"12x", 2000},
                                                     {"-5", 2000},
                                                     {"99999999999999999999", 2000}}) {
    SetEnv("SMELTR_FOOTPRINT_PERIOD_MS", text);
    EXPECT_EQ(FootprintPeriodFromEnvironment(), ms * 1'000'000) << text;
  }
  SetEnv("SMELTR_FOOTPRINT_PERIOD_MS", std::nullopt);
  EXPECT_EQ(FootprintPeriodFromEnvironment(), kDefaultFootprintPeriodNs);
  EXPECT_EQ(MakeFootprintProbe(trees_, ledger_, tree_.roots(), 7 * kNsPerSecond)->period_ns(),
            7 * kNsPerSecond);
}

TEST(RealFootprint, CheckReadsOurselves) {
  const auto probe = MakeFootprintProbe(std::make_shared<RecordedTrees>(), std::make_shared<GpuLedger>());
  EXPECT_NE(probe->Check().health, Health::kFailed);
}

}  // namespace
}  // namespace smeltr::probe
