#include "probe/kernel_log_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/clock.h"
#include "fake/event_list.h"
#include "probe/apple_log_events.h"
#include "probe/kernel_log_events.h"

namespace smeltr::probe {
namespace {

constexpr uint64_t kNowNs = 10'000 * kNsPerSecond;

// A socket that keeps records apart stands for /dev/kmsg.
class KernelLogProbeTest : public testing::Test {
 protected:
  KernelLogProbeTest() {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK, 0, ends), 0);
    kernel_.Reset(ends[0]);
    probe_ = MakeKernelLogProbe(Fd(ends[1]));
  }

  void Write(uint64_t age_seconds, std::string_view text) {
    const uint64_t stamp_us = (now_ns_ - age_seconds * kNsPerSecond) / 1000;
    WriteRaw(fmt::format("3,{},{},-;{}\n", sequence_++, stamp_us, text));
  }
  void WriteRaw(const std::string& record) {
    ASSERT_EQ(::send(kernel_.get(), record.data(), record.size(), 0), static_cast<ssize_t>(record.size()));
  }
  Status Sample() {
    Context context;
    context.now_ns = now_ns_;
    return probe_->Sample(context, events_);
  }

  uint64_t now_ns_ = kNowNs;
  uint64_t sequence_ = 100;
  Fd kernel_;
  std::unique_ptr<Probe> probe_;
  fake::EventList events_;
};

TEST_F(KernelLogProbeTest, TheLastMinuteIsContext) {
  Write(61, "NVRM: Xid (PCI:0000:3b:00): 31, pid=1, name=old");
  Write(30, "NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus.");
  Write(20, "x[7]: segfault at 18 ip 0 sp 0 error 4 in x[1,2+3]");
  Write(10, "usb 1-1: new device");
  EXPECT_EQ(Sample().health, Health::kOk);
  ASSERT_EQ(events_.All<event::GpuFault>().size(), 1U);
  EXPECT_EQ(events_.Last<event::GpuFault>().code, 79);
  EXPECT_EQ(events_.Last<event::GpuFault>().fault_class.view, "link");
  EXPECT_EQ(events_.All<event::OsLogLine>().size(), 1U);
  EXPECT_TRUE(events_.All<event::CrashHint>().empty());
}

TEST_F(KernelLogProbeTest, LiveLinesOfEveryKind) {
  Sample();
  now_ns_ += kNsPerSecond;
  Write(0, "NVRM: Xid (PCI:0000:3b:00): 31, pid=4711, name=python");
  Write(0, "x[7]: segfault at 18 ip 0 sp 0 error 4 in x[1,2+3]");
  Write(0, "mce: [Hardware Error]: Machine check events logged");
  Write(
      0,
      "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/a,task_memcg=/a,task=hog,pid=9,uid=0");
  Write(0,
        "Memory cgroup out of memory: Killed process 9 (hog) total-vm:4kB, anon-rss:3kB, file-rss:2kB, "
        "shmem-rss:1kB");
  Write(0, "usb 1-1: new device");
  EXPECT_EQ(Sample().health, Health::kOk);
  const auto fault = events_.Last<event::GpuFault>();
  EXPECT_EQ(fault.target_pid, 4711U);
  EXPECT_EQ(fault.vendor.view, "nvidia");
  EXPECT_EQ(fault.pci_address.view, "0000:3b:00.0");
  EXPECT_EQ(events_.Last<event::CrashHint>().address, 0x18U);
  const auto kill = events_.Last<event::OomKill>();
  EXPECT_EQ(kill.killed_pid, 9U);
  EXPECT_EQ(kill.anon_rss_bytes, 3072U);
  EXPECT_EQ(kill.cgroup.view, "/a");
  EXPECT_EQ(kill.constraint.view, "memcg");
  EXPECT_EQ(kill.evidence.view, "kernel-log");
  const auto lines = events_.All<event::OsLogLine>();
  ASSERT_EQ(lines.size(), 5U);
  EXPECT_EQ(lines[0].category.view, "xid");
  EXPECT_EQ(lines[0].subsystem.view, "kernel");
  EXPECT_EQ(lines[0].priority, 3U);
  EXPECT_EQ(lines[2].category.view, "hardware");
}

TEST_F(KernelLogProbeTest, AKillWithoutSizesIsToldAfterASecond) {
  Sample();
  now_ns_ += kNsPerSecond;
  Write(0, "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),task=hog,pid=9,uid=0");
  Sample();
  EXPECT_TRUE(events_.All<event::OomKill>().empty());
  now_ns_ += 2 * kNsPerSecond;
  Sample();
  EXPECT_EQ(events_.Last<event::OomKill>().killed_pid, 9U);
}

TEST_F(KernelLogProbeTest, LostRecordsAreToldOf) {
  Write(0, "a");
  sequence_ += 7;
  Write(0, "b");
  Sample();
  const auto lines = events_.All<event::OsLogLine>();
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].category.view, "gap");
  EXPECT_TRUE(lines[0].message.view.starts_with("7 kernel records"));
}

TEST_F(KernelLogProbeTest, AFloodIsCutAndCountedAndHidesNoKill) {
  Sample();
  now_ns_ += kNsPerSecond;
  for (int i = 0; i < 80; ++i) Write(0, "nvidia 0000:07:00.0: PCIe Bus Error: severity=Corrected, type=x");
  Write(0, "Out of memory: Killed process 9 (hog) total-vm:4kB, anon-rss:3kB");
  Sample();
  EXPECT_EQ(events_.All<event::OsLogLine>().size(), 51U);
  EXPECT_EQ(events_.All<event::OomKill>().size(), 1U);
  events_.Clear();
  now_ns_ += kNsPerSecond;
  Write(0, "nvidia 0000:07:00.0: PCIe Bus Error: severity=Corrected, type=x");
  Sample();
  const auto lines = events_.All<event::OsLogLine>();
  ASSERT_EQ(lines.size(), 2U);
  EXPECT_EQ(lines[0].category.view, "gap");
  EXPECT_TRUE(lines[0].message.view.starts_with("30 more hardware lines")) << lines[0].message.view;
}

TEST_F(KernelLogProbeTest, GarbageIsPassedOver) {
  WriteRaw("garbage");
  WriteRaw(std::string(9000, ';'));
  Write(0, "NVRM: Xid (PCI:0000:3b:00): 31");
  EXPECT_EQ(Sample().health, Health::kOk);
  EXPECT_EQ(events_.All<event::GpuFault>().size(), 1U);
}

TEST_F(KernelLogProbeTest, ADeviceThatEndsIsAFailure) {
  Sample();
  kernel_.Reset();
  EXPECT_EQ(Sample().health, Health::kFailed);
}

TEST(KernelClockTest, RecordsWereWrittenBetweenTwoReadings) {
  KernelClock clock;
  EXPECT_EQ(clock.ToSession(5), 5'000U);
  // The kernel's clock is 3 s behind.
  clock.Learn(97'000'000, 99 * kNsPerSecond, 100 * kNsPerSecond);
  EXPECT_EQ(clock.ToSession(97'000'000), 99 * kNsPerSecond);
  EXPECT_EQ(clock.ToStamp(99 * kNsPerSecond), 97'000'000U);
  // Within the bounds nothing changes.
  clock.Learn(98'500'000, 100 * kNsPerSecond, 101 * kNsPerSecond);
  EXPECT_EQ(clock.ToSession(97'000'000), 99 * kNsPerSecond);
  // Not in the future.
  clock.Learn(200'000'000, 100 * kNsPerSecond, 101 * kNsPerSecond);
  EXPECT_EQ(clock.ToSession(200'000'000), 101 * kNsPerSecond);
  clock.Learn(UINT64_MAX, 0, 1);
  EXPECT_EQ(clock.ToSession(200'000'000), 101 * kNsPerSecond);
}

TEST(AppleLogEventsTest, EntriesGetTheSessionsTime) {
  AppleLogEvents log;
  fake::EventList events;
  constexpr uint64_t kWallNs = 1'661'437'321'008'417'000;
  log.Add("Filtering the log data using ...", kNowNs, kWallNs, events);
  EXPECT_EQ(events.size(), 0U);
  constexpr std::string_view kEntry =
      R"({"eventMessage":"GPU watchdog","subsystem":"com.apple.gpurestart","category":"hang","messageType":"Error",)"
      R"("processID":216,"timestamp":"2022-08-25 15:22:01.008417+0100","processImagePath":"/usr/libexec/gpud"})";
  log.Add(kEntry, kNowNs, kWallNs + kNsPerSecond, events);
  const auto line = events.Last<event::OsLogLine>();
  EXPECT_EQ(line.wall_unix_ns, kWallNs);
  EXPECT_EQ(line.subsystem.view, "com.apple.gpurestart");
  EXPECT_EQ(line.target_pid, 216U);
  EXPECT_EQ(line.process_name.view, "gpud");
  for (int i = 0; i < 60; ++i) log.Add(kEntry, kNowNs, kWallNs, events);
  EXPECT_EQ(events.size(), 50U);
  log.Add(kEntry, kNowNs + kNsPerSecond, kWallNs, events);
  const auto lines = events.All<event::OsLogLine>();
  ASSERT_EQ(lines.size(), 52U);
  EXPECT_EQ(lines[50].category.view, "gap");
  EXPECT_TRUE(lines[50].message.view.starts_with("11 more lines"));
}

}  // namespace
}  // namespace smeltr::probe
