#include "probe/proc.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "base/clock.h"
#include "fake/event_list.h"
#include "fake/fake_process.h"
#include "fake/scratch.h"

namespace smeltr::probe {
namespace {

class ProcTest : public fake::ScratchTest {
 protected:
  Status Sample(uint64_t seconds) {
    return probe_->Sample({.now_ns = seconds * kNsPerSecond, .recordings = {}}, events_);
  }
  // In ticks, what a second of one core is.
  const uint64_t second_ = static_cast<uint64_t>(::sysconf(_SC_CLK_TCK));
  fake::FileTree tree_{scratch()};
  std::unique_ptr<Probe> probe_ = MakeProcProbe(tree_.roots());
  fake::EventList events_;
};

TEST_F(ProcTest, TellsTheBusiestByWhatTheyUsedSince) {
  Write(tree_, {.pid = 1, .parent_pid = 0, .name = "init", .user_ticks = 9000});
  Write(tree_, {.pid = 5, .name = "old", .user_ticks = 100, .system_ticks = 100});
  EXPECT_EQ(Sample(10).health, Health::kOk);
  EXPECT_EQ(events_.size(), 0U);
  Write(tree_, {.pid = 5, .name = "old", .user_ticks = 100 + second_, .system_ticks = 100 + second_});
  Write(tree_, {.pid = 6, .name = "fresh", .user_ticks = 3 * second_});
  Sample(12);
  const auto told = events_.Last<event::ProcTop>();
  ASSERT_EQ(told.top.size(), 2U);
  EXPECT_EQ(told.top[0].pid, 6U);
  EXPECT_EQ(told.top[0].name.view, "fresh");
  EXPECT_DOUBLE_EQ(told.top[0].cpu_pct, 150);
  EXPECT_EQ(told.top[1].pid, 5U);
  EXPECT_DOUBLE_EQ(told.top[1].cpu_pct, 100);
  EXPECT_TRUE(told.flagged.empty());
}

TEST_F(ProcTest, NoMoreThanTenAndTheTenBusiest) {
  Write(tree_, {.pid = 1, .parent_pid = 0});
  Sample(10);
  for (uint32_t pid = 2; pid < 22; ++pid) Write(tree_, {.pid = pid, .user_ticks = pid});
  Sample(15);
  const auto told = events_.Last<event::ProcTop>();
  ASSERT_EQ(told.top.size(), 10U);
  EXPECT_EQ(told.top.front().pid, 21U);
  EXPECT_EQ(told.top.back().pid, 12U);
}

TEST_F(ProcTest, AReusedPidOwesNothing) {
  Write(tree_, {.pid = 1, .parent_pid = 0});
  Write(tree_, {.pid = 5, .start_time_ticks = 1, .user_ticks = 5000});
  Sample(10);
  Write(tree_, {.pid = 5, .start_time_ticks = 2, .user_ticks = second_});
  Sample(11);
  ASSERT_EQ(events_.Last<event::ProcTop>().top.size(), 1U);
  EXPECT_DOUBLE_EQ(events_.Last<event::ProcTop>().top[0].cpu_pct, 100);
}

TEST_F(ProcTest, CutNamesAreCompletedFromTheExecutable) {
  Write(tree_, {.pid = 1, .parent_pid = 0});
  Sample(10);
  Write(tree_, {.pid = 5, .name = "a-very-long-pro", .user_ticks = 50});
  tree_.Link("proc/5/exe", "/opt/a-very-long-program-name (deleted)");
  Write(tree_, {.pid = 6, .name = "its-own-15-char", .user_ticks = 40});
  tree_.Link("proc/6/exe", "/usr/bin/python3");
  Sample(11);
  const auto told = events_.Last<event::ProcTop>();
  ASSERT_EQ(told.top.size(), 2U);
  EXPECT_EQ(told.top[0].name.view, "a-very-long-program-name");
  EXPECT_EQ(told.top[1].name.view, "its-own-15-char");
}

TEST_F(ProcTest, CrashHelpersAreFlagged) {
  Write(tree_, {.pid = 1, .parent_pid = 0});
  Sample(10);
  Write(tree_, {.pid = 5, .name = "systemd-coredum"});
  Write(tree_, {.pid = 6, .name = "kswapd0", .user_ticks = 1});
  Sample(11);
  ASSERT_EQ(events_.Last<event::ProcTop>().flagged.size(), 1U);
  EXPECT_EQ(events_.Last<event::ProcTop>().flagged[0].view, "systemd-coredum");
}

TEST_F(ProcTest, HiddenProcessesAreTold) {
  Write(tree_, {.pid = 5});
  EXPECT_EQ(Sample(10).health, Health::kDegraded);
  tree_.Remove("proc/5");
  EXPECT_EQ(Sample(15).health, Health::kFailed);
}

TEST(FlaggedHelpers, ByNameAndUse) {
  EXPECT_TRUE(IsFlaggedHelper("systemd-coredum", 0));
  EXPECT_TRUE(IsFlaggedHelper("nvidia-bug-repo", 0));
  EXPECT_TRUE(IsFlaggedHelper("abrt-hook-ccpp", 0));
  EXPECT_TRUE(IsFlaggedHelper("gdb", 0));
  EXPECT_FALSE(IsFlaggedHelper("gdbus", 50));
  EXPECT_FALSE(IsFlaggedHelper("systemd", 50));
  EXPECT_FALSE(IsFlaggedHelper("systemd-journal", 4));
  EXPECT_TRUE(IsFlaggedHelper("systemd-journal", 6));
  EXPECT_TRUE(IsFlaggedHelper("kswapd0", 6));
  EXPECT_TRUE(IsFlaggedHelper("ReportCrash", 6));
  EXPECT_FALSE(IsFlaggedHelper("ReportCrash", 1));
}

}  // namespace
}  // namespace smeltr::probe
