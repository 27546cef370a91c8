#include "crash/apple_report.h"

#include <gtest/gtest.h>

#include <string>
#include <variant>

#include "crash/apple_log.h"
#include "unit/crash/samples.h"

namespace smeltr::crash {
namespace {

TEST(AppleReport, CrashOfAMetalProgram) {
  const auto report = ParseAppleReport(Sample("abort.ips"));
  ASSERT_TRUE(report.has_value());
  EXPECT_EQ(report->bug_type, "309");
  EXPECT_EQ(report->incident_id, "3856CF21-0F16-4DFE-B8AC-140AF9377026");
  EXPECT_EQ(report->report_unix_ns, 1'775'689'279'135'300'000U);
  const auto* crash = std::get_if<AppleCrash>(&report->body);
  ASSERT_NE(crash, nullptr);
  EXPECT_EQ(crash->pid, 18254U);
  EXPECT_EQ(crash->process_name, "python3.12");
  EXPECT_EQ(crash->signal, "SIGABRT");
  EXPECT_EQ(crash->exception_codes, (std::vector<int64_t>{0, 0}));
  // What the framework said last is the reason; it stands in "asi" alone.
  EXPECT_TRUE(crash->summary.starts_with("EXC_CRASH; Abort trap: 6; ")) << crash->summary;
  EXPECT_NE(crash->summary.find("kIOGPUCommandBufferCallbackErrorOutOfMemory"), std::string::npos);
  ASSERT_EQ(crash->frames.size(), 10U);
  EXPECT_EQ(crash->frames[0], "__pthread_kill + 8 (libsystem_kernel.dylib)");
  EXPECT_EQ(crash->frames[3], "libmlx.dylib + 57660");
  EXPECT_EQ(crash->frames[6], "c + 3 (?)");
}

TEST(AppleReport, BodyOnOneLine) {
  const auto report = ParseAppleReport(
      R"({"bug_type":"309","timestamp":"2026-04-08 16:01:19.00 -0700"})"
      "\n"
      R"({"pid":7,"procName":"x","exception":{"type":"EXC_BAD_ACCESS","signal":"SIGSEGV",)"
      R"~("rawCodes":[1,18446744073709551615],"subtype":"KERN_INVALID_ADDRESS at 0x10 (0x2A)"},)~"
      R"("termination":{"namespace":"SIGNAL","code":10},"threads":[{},{"triggered":true,"frames":[{"symbol":"f"}]}]})");
  const auto& crash = std::get<AppleCrash>(report->body);
  EXPECT_EQ(crash.signal, "SIGBUS");  // 10 on macOS; what ended the process goes before the exception's.
  EXPECT_EQ(crash.exception_codes, (std::vector<int64_t>{1, -1, 0x2A}));
  EXPECT_EQ(crash.summary, "EXC_BAD_ACCESS: KERN_INVALID_ADDRESS at 0x10 (0x2A)");
  EXPECT_EQ(crash.frames, (std::vector<std::string>{"f + 0 (?)"}));
}

TEST(AppleReport, EveryJetsamVictimAndNobodyElse) {
  const auto report = ParseAppleReport(Sample("jetsam.ips"));
  ASSERT_TRUE(report.has_value());
  const auto* jetsam = std::get_if<AppleJetsam>(&report->body);
  ASSERT_NE(jetsam, nullptr);
  EXPECT_EQ(jetsam->page_size_bytes, 16384U);
  ASSERT_EQ(jetsam->victims.size(), 2U);
  EXPECT_EQ(jetsam->victims[0].process_name, "MemoryTest");
  EXPECT_EQ(jetsam->victims[0].pid, 2541U);
  EXPECT_EQ(jetsam->victims[0].footprint_bytes, 1400U << 20);
  EXPECT_EQ(jetsam->victims[0].lifetime_max_bytes, 24126U * 16384);
  EXPECT_EQ(jetsam->victims[0].reason, "per-process-limit");
  EXPECT_EQ(jetsam->victims[1].reason, "highwater");
}

TEST(AppleReport, JetsamWithoutVictimsAndPageSize) {
  const auto report = ParseAppleReport(
      "{\"bug_type\":\"298\"}\n{\"largestProcess\":\"x\",\"processes\":[{\"name\":\"x\",\"rpages\":9}]}");
  const auto& jetsam = std::get<AppleJetsam>(report->body);
  EXPECT_EQ(jetsam.page_size_bytes, 16384U);
  EXPECT_TRUE(jetsam.victims.empty());
}

TEST(AppleReport, HalfAFileIsReadAgainLater) {
  const std::string whole = Sample("abort.ips");
  for (const size_t size :
       {size_t{0}, size_t{10}, whole.find('\n') + 1, whole.size() / 2, whole.size() - 3}) {
    const auto report = ParseAppleReport(std::string_view(whole).substr(0, size));
    ASSERT_FALSE(report.has_value()) << size;
    EXPECT_EQ(report.error().code(), ErrorCode::kUnavailable);
  }
}

TEST(AppleReport, ValuesOfOtherTypesAreEmpty) {
  const auto report = ParseAppleReport(
      "{\"bug_type\":309,\"incident_id\":[]}\n"
      R"({"pid":-4,"procName":{},"exception":{"rawCodes":[1.5,"x"],"signal":3},"termination":[],"asi":["x"],)"
      R"("faultingThread":99,"threads":[{"triggered":"yes"}],"usedImages":{}})");
  ASSERT_TRUE(report.has_value());
  const auto& crash = std::get<AppleCrash>(report->body);
  EXPECT_EQ(crash.pid, 0U);
  EXPECT_TRUE(crash.process_name.empty() && crash.signal.empty() && crash.frames.empty());
  EXPECT_TRUE(crash.exception_codes.empty());
}

// Copying a JSON value is recursive.
TEST(AppleReport, DeepNestingIsNoDanger) {
  const size_t depth = 1'000'000;
  const std::string text = "{\n\"exception\":" + std::string(depth, '[') + std::string(depth, ']') + "}";
  EXPECT_TRUE(ParseAppleReport(text).has_value());
  EXPECT_TRUE(ParseAppleReport("{}\n" + text).has_value());
}

TEST(AppleTime, WithAndWithoutFraction) {
  EXPECT_EQ(ParseAppleTime("1970-01-01 00:00:00.50 +0000"), 500'000'000U);
  EXPECT_EQ(ParseAppleTime("2026-09-29 17:13:21.00 +0530"), 1'790'682'201'000'000'000U);
  EXPECT_EQ(ParseAppleTime("2022-08-25 15:22:01.008417+0100"), 1'661'437'321'008'417'000U);
  EXPECT_EQ(ParseAppleTime("2022-08-25 15:22:01+0100"), 1'661'437'321'000'000'000U);
  for (const char* bad :
       {"", "garbage", "2026-13-01 00:00:00 +0000", "99999999999999999-01-01 00:00:00 +0000",
        "2026-01-01 99999999999999999:00:00 +0000", "2026-01-01 00:00:00", "+0000+0000+0000+0000+0000"}) {
    EXPECT_EQ(ParseAppleTime(bad), 0U) << bad;
  }
}

TEST(AppleLog, EntryOfTheStream) {
  const auto line = ParseAppleLogLine(
      R"({"traceID":29708737644232966,"eventMessage":"GPU watchdog: restart","eventType":"logEvent","source":null,)"
      R"("formatString":"%s","activityIdentifier":0,"subsystem":"com.apple.gpurestart","category":"hang","threadID":88334,)"
      R"("messageType":"Error","processID":216,"timestamp":"2022-08-25 15:22:01.008417+0100",)"
      R"("processImagePath":"\/usr\/libexec\/gpud","machTimestamp":1})");
  ASSERT_TRUE(line.has_value());
  EXPECT_EQ(line->wall_unix_ns, 1'661'437'321'008'417'000U);
  EXPECT_EQ(line->subsystem, "com.apple.gpurestart");
  EXPECT_EQ(line->category, "hang");
  EXPECT_EQ(line->message, "GPU watchdog: restart");
  EXPECT_EQ(line->process_name, "gpud");
  EXPECT_EQ(line->pid, 216U);
  EXPECT_EQ(line->priority, 3U);
  EXPECT_FALSE(ParseAppleLogLine("Filtering the log data using \"subsystem == ...\"").has_value());
  EXPECT_FALSE(ParseAppleLogLine("{}").has_value());
}

}  // namespace
}  // namespace smeltr::crash
