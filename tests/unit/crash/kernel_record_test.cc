#include "crash/kernel_record.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace smeltr::crash {
namespace {

TEST(KmsgRecord, HeaderTextAndDevice) {
  const auto record = ParseKmsgRecord(
      "11,422,706342818,-;amdgpu 0000:08:00.0: GPU reset begin!\n SUBSYSTEM=pci\n "
      "DEVICE=+pci:0000:08:00.0\n");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->priority, 3U);
  EXPECT_EQ(record->facility, 1U);
  EXPECT_EQ(record->sequence, 422U);
  EXPECT_EQ(record->stamp_us, 706342818U);
  EXPECT_EQ(record->text, "amdgpu 0000:08:00.0: GPU reset begin!");
  EXPECT_EQ(record->device, "+pci:0000:08:00.0");
}

TEST(KmsgRecord, EscapedBytesAndAppendedHeaderFields) {
  const auto record = ParseKmsgRecord("6,1,2,-,caller=T1;a\\x09b\\x5cx41 caf\\xc3\\xa9 \\xzz \\x4");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->text, "a\tb\\x41 caf\xC3\xA9 \\xzz \\x4");
}

TEST(KmsgRecord, WhatIsNoneIsRefused) {
  EXPECT_FALSE(ParseKmsgRecord("").has_value());
  EXPECT_FALSE(ParseKmsgRecord("no header").has_value());
  EXPECT_FALSE(ParseKmsgRecord("6,x,2,-;text").has_value());
  EXPECT_FALSE(ParseKmsgRecord("6,1;text").has_value());
  EXPECT_FALSE(ParseKmsgRecord("99999999999,1,2,-;text").has_value());
}

TEST(JournalRecord, FieldsOfTheJournal) {
  const auto record = ParseJournalRecord(
      R"({"__CURSOR":"s=1","__REALTIME_TIMESTAMP":"1422990364739502","__MONOTONIC_TIMESTAMP":"27200938",)"
      R"("_TRANSPORT":"kernel","PRIORITY":"3","SYSLOG_FACILITY":"0","_KERNEL_DEVICE":"+pci:0000:03:00.0",)"
      R"("MESSAGE":"NVRM: Xid (PCI:0000:3b:00): 79, pid=0, GPU has fallen off the bus."})");
  ASSERT_TRUE(record.has_value());
  EXPECT_EQ(record->priority, 3U);
  EXPECT_EQ(record->stamp_us, 27200938U);
  EXPECT_EQ(record->device, "+pci:0000:03:00.0");
  EXPECT_TRUE(record->text.starts_with("NVRM: Xid"));
}

// Everything since boot once seemed to happen when the journal was started.
TEST(JournalRecord, WhatWasTakenOverLateKeepsItsTime) {
  const auto stamp = [](const char* written, const char* received) {
    return ParseJournalRecord(
               fmt::format(
                   R"({{"MESSAGE":"x","_SOURCE_MONOTONIC_TIMESTAMP":"{}","__MONOTONIC_TIMESTAMP":"{}"}})",
                   written, received))
        ->stamp_us;
  };
  EXPECT_EQ(stamp("706239359", "3860770574"), 706'239'359U);
  EXPECT_EQ(stamp("706239359", "706250000"), 706'250'000U);
}

TEST(JournalRecord, MessageAsBytesAndNoMessage) {
  EXPECT_EQ(ParseJournalRecord(R"({"MESSAGE":[78,86,255]})")->text, "NV\xFF");
  EXPECT_FALSE(ParseJournalRecord(R"({"MESSAGE":null})").has_value());
  EXPECT_FALSE(ParseJournalRecord("-- No entries --").has_value());
  EXPECT_FALSE(ParseJournalRecord("[1]").has_value());
}

TEST(PlainLine, AsPrintedByDmesgAndSyslog) {
  const KernelRecord dmesg = ParsePlainLine("[  518.050606] Out of memory: Killed process 15784 (python3)");
  EXPECT_EQ(dmesg.stamp_us, 518'050'606U);
  EXPECT_EQ(dmesg.text, "Out of memory: Killed process 15784 (python3)");
  const KernelRecord syslog =
      ParsePlainLine("May 15 23:09:30 ubuntu-s-1vcpu-2gb-ams3-01 kernel: [  518.053407] oom_reaper: reaped");
  EXPECT_EQ(syslog.stamp_us, 518'053'407U);
  EXPECT_EQ(syslog.text, "oom_reaper: reaped");
  const KernelRecord serial = ParsePlainLine("<3>[39291577.009543] Memory cgroup out of memory");
  EXPECT_EQ(serial.priority, 3U);
  EXPECT_EQ(serial.stamp_us, 39'291'577'009'543U);
  EXPECT_EQ(ParsePlainLine("[drm] GPU HANG").text, "[drm] GPU HANG");
  EXPECT_EQ(ParsePlainLine("<x> <").text, "<x> <");
}

}  // namespace
}  // namespace smeltr::crash
