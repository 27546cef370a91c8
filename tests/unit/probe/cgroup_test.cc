#include "probe/cgroup.h"

#include <gtest/gtest.h>

#include "base/clock.h"
#include "fake/event_list.h"
#include "fake/fake_process.h"
#include "fake/scratch.h"
#include "probe/oom_victims.h"

namespace smeltr::probe {
namespace {

class CgroupTest : public fake::ScratchTest {
 protected:
  CgroupTest() {
    Write(tree_, {.pid = 10, .start_time_ticks = 1000, .name = "root"});
    Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001, .name = "worker"});
  }
  void WriteV2(uint64_t current, uint64_t oom_kill) {
    tree_.Write("proc/10/cgroup", "0::/user/run\n");
    tree_.Write("sys/fs/cgroup/user/memory.current", "1\n");
    tree_.Write("sys/fs/cgroup/user/memory.max", "5000\n");
    const std::string at = "sys/fs/cgroup/user/run/";
    tree_.Write(at + "memory.current", std::to_string(current) + "\n");
    tree_.Write(at + "memory.max", "max\n");
    tree_.Write(at + "memory.high", "4000\n");
    tree_.Write(at + "memory.peak", "2500\n");
    tree_.Write(at + "memory.swap.current", "7\n");
    tree_.Write(at + "memory.events",
                "low 0\nhigh 0\nmax 9\noom 3\noom_kill " + std::to_string(oom_kill) + "\n");
  }
  void WriteV1(const std::string& directory) {
    tree_.Write("proc/10/cgroup", "9:name=systemd:/\n4:cpu,memory:/box/run\n0::/\n");
    const std::string at = "sys/fs/cgroup/memory" + directory + "/";
    tree_.Write(at + "memory.usage_in_bytes", "3000\n");
    tree_.Write(at + "memory.limit_in_bytes", "9223372036854771712\n");
    tree_.Write(at + "memory.soft_limit_in_bytes", "9223372036854771712\n");
    tree_.Write(at + "memory.max_usage_in_bytes", "3500\n");
    tree_.Write(at + "memory.memsw.usage_in_bytes", "3100\n");
    tree_.Write(at + "memory.failcnt", "4\n");
    tree_.Write(at + "memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n");
  }
  Status Sample(uint64_t seconds) {
    context_.now_ns = seconds * kNsPerSecond;
    events_.Clear();
    return probe_->Sample(context_, events_);
  }

  fake::FileTree tree_{scratch()};
  std::unique_ptr<Probe> probe_ =
      MakeCgroupProbe(std::make_shared<RecordedTrees>(tree_.At("proc")), tree_.roots());
  Context context_{.now_ns = 0,
                   .recordings = {{.session_id = "s",
                                   .token = "",
                                   .root_pid = 10,
                                   .root_start_time_ticks = 1000,
                                   .footprint_period_ns = 0}}};
  fake::EventList events_;
};

TEST_F(CgroupTest, Version2) {
  WriteV2(2000, 0);
  EXPECT_EQ(Sample(10).health, Health::kOk);
  const auto told = events_.Last<event::CgroupMemory>();
  EXPECT_EQ(events_.Sessions(), (std::vector<std::string>{"s"}));
  EXPECT_EQ(told.cgroup.view, "/user/run");
  EXPECT_EQ(told.current_bytes, 2000U);
  EXPECT_EQ(told.limit_bytes, 5000U);  // Of the group above.
  EXPECT_EQ(told.high_bytes, 4000U);
  EXPECT_EQ(told.peak_bytes, 2500U);
  EXPECT_EQ(told.swap_bytes, 7U);
  EXPECT_EQ(told.oom_count, 3U);
  EXPECT_EQ(told.max_count, 9U);
}

TEST_F(CgroupTest, Version1) {
  WriteV1("/box/run");
  EXPECT_EQ(Sample(10).health, Health::kOk);
  const auto told = events_.Last<event::CgroupMemory>();
  EXPECT_EQ(told.cgroup.view, "/box/run");
  EXPECT_EQ(told.current_bytes, 3000U);
  EXPECT_EQ(told.limit_bytes, 0U);
  EXPECT_EQ(told.high_bytes, 0U);
  EXPECT_EQ(told.peak_bytes, 3500U);
  EXPECT_EQ(told.swap_bytes, 100U);
  EXPECT_EQ(told.oom_kill_count, 2U);
  EXPECT_EQ(told.max_count, 4U);
}

TEST_F(CgroupTest, InAContainerTheMountIsTheGroup) {
  WriteV1("");
  EXPECT_EQ(Sample(10).health, Health::kOk);
  EXPECT_EQ(events_.Last<event::CgroupMemory>().current_bytes, 3000U);
}

TEST_F(CgroupTest, PathsDoNotLeadOut) {
  WriteV2(2000, 0);
  tree_.Write("sys/memory.current", "1\n");
  tree_.Write("proc/10/cgroup", "0::/../..\n");
  EXPECT_EQ(FindCgroup(tree_.roots(), 10), std::nullopt);
}

TEST_F(CgroupTest, QuietOnesAreToldRarely) {
  WriteV2(2000, 0);
  Sample(10);
  WriteV2(2100, 0);
  Sample(12);
  EXPECT_EQ(events_.size(), 0U);
  WriteV2(2600, 0);
  Sample(14);
  EXPECT_EQ(events_.Last<event::CgroupMemory>().current_bytes, 2600U);
  Sample(24);
  EXPECT_EQ(events_.size(), 1U);
}

TEST_F(CgroupTest, AKillNamesTheProcessThatWent) {
  WriteV2(2000, 5);
  Sample(10);
  WriteV2(2000, 6);
  tree_.Remove("proc/11");
  Sample(12);
  const auto kill = events_.Last<event::OomKill>();
  EXPECT_EQ(kill.killed_pid, 11U);
  EXPECT_EQ(kill.killed_name.view, "worker");
  EXPECT_EQ(kill.cgroup.view, "/user/run");
  EXPECT_EQ(kill.evidence.view, "cgroup");
  EXPECT_EQ(events_.Last<event::CgroupMemory>().oom_kill_count, 6U);
}

TEST_F(CgroupTest, TheRootsKillIsSeenAfterItIsGone) {
  WriteV2(2000, 0);
  tree_.Remove("proc/11");
  Sample(10);
  WriteV2(2000, 1);
  tree_.Remove("proc/10");
  EXPECT_EQ(Sample(12).health, Health::kOk);
  EXPECT_EQ(events_.Last<event::OomKill>().killed_pid, 10U);
  tree_.Remove("sys/fs/cgroup/user/run");
  EXPECT_EQ(Sample(24).health, Health::kOk);
}

TEST_F(CgroupTest, WithoutAGroupItIsDegraded) {
  tree_.Write("proc/10/cgroup", "0::/\n");
  EXPECT_EQ(Sample(10).health, Health::kDegraded);
  EXPECT_EQ(events_.size(), 0U);
}

std::vector<ProcessTree::Member> Members(std::initializer_list<uint32_t> pids) {
  std::vector<ProcessTree::Member> members;
  for (const uint32_t pid : pids) {
    ProcessEntry process;
    process.pid = pid;
    members.push_back({.process = process, .is_root = false});
  }
  return members;
}

TEST(OomVictims, AreNamedOnlyWhenThereIsNoDoubt) {
  OomVictims victims;
  EXPECT_TRUE(victims.Update(0, Members({1, 2, 3, 4}), 7).empty());
  // One kill, two that went: nobody knows.
  EXPECT_TRUE(victims.Update(2 * kNsPerSecond, Members({3, 4}), 8).empty());
  // Long after, another.
  EXPECT_TRUE(victims.Update(20 * kNsPerSecond, Members({3, 4}), 8).empty());
  const auto named = victims.Update(22 * kNsPerSecond, Members({4}), 9);
  ASSERT_EQ(named.size(), 1U);
  EXPECT_EQ(named[0].pid, 3U);
  EXPECT_TRUE(victims.Update(24 * kNsPerSecond, Members({4}), 9).empty());
}

TEST(OomVictims, MayBeCountedBeforeOrAfterTheyGo) {
  OomVictims victims;
  victims.Update(0, Members({1, 2}), 0);
  EXPECT_TRUE(victims.Update(2 * kNsPerSecond, Members({1, 2}), 1).empty());
  EXPECT_EQ(victims.Update(4 * kNsPerSecond, Members({2}), 1).size(), 1U);
  EXPECT_TRUE(victims.Update(30 * kNsPerSecond, Members({}), 1).empty());
  EXPECT_EQ(victims.Update(32 * kNsPerSecond, Members({}), 2).size(), 1U);
}

TEST(OomVictims, AGroupThatIsKilledTogetherIsNamedTogether) {
  OomVictims victims;
  victims.Update(0, Members({1, 2, 3}), 0);
  EXPECT_EQ(victims.Update(2 * kNsPerSecond, Members({}), 3).size(), 3U);
}

}  // namespace
}  // namespace smeltr::probe
