#include "faces/session_notes.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <span>

#include "event/event.h"
#include "fake/scratch.h"
#include "session/reader.h"
#include "session/writer.h"

namespace smeltr::faces {
namespace {

class SessionNotesTest : public fake::ScratchTest {
 protected:
  SessionNotes Collect(std::initializer_list<event::Event> events) const {
    const std::filesystem::path file = scratch() / "events.smlt";
    auto writer = session::Writer::Create(file, {});
    EXPECT_TRUE(writer.has_value());
    for (const event::Event& event : events) writer->Append(event);
    EXPECT_TRUE(writer->Close().has_value());
    auto reader = session::Reader::Open(file);
    EXPECT_TRUE(reader.has_value());
    return CollectNotes(analysis::SessionSource(std::span(&*reader, 1)));
  }
};

TEST_F(SessionNotesTest, MarksComeInOrderWithTheirFields) {
  const std::vector<event::Attribute> fields = {
      {.key = "n", .type = event::AttributeType::kInt, .bits = 3},
      {.key = "ok", .type = event::AttributeType::kBool, .bits = 1},
      {.key = "who", .type = event::AttributeType::kString, .text = "me"}};
  event::Mark late{.label = "late"};
  late.fields = fields;
  const SessionNotes notes =
      Collect({{{.ts_ns = 20}, late}, {{.ts_ns = 10, .pid = 7}, event::Mark{.label = "early"}}});
  ASSERT_EQ(notes.marks.size(), 2U);
  EXPECT_EQ(notes.mark_count, 2U);
  EXPECT_EQ(notes.marks[0].label, "early");
  EXPECT_EQ(notes.marks[0].pid, 7U);
  EXPECT_EQ(notes.marks[1].fields, "n=3, ok=true, who=me");
  EXPECT_TRUE(notes.crash.empty());
}

TEST_F(SessionNotesTest, WhatTheSystemSaidOfACrashIsThereOnce) {
  constexpr std::string_view kLine = "demo[7]: segfault at 0 ip 1 sp 2 error 4";
  const SessionNotes notes = Collect(
      {{{.ts_ns = 30},
        event::CrashReportEmitted{
            .path = "/var/crash/demo", .crashed_pid = 7, .summary = "SIGSEGV at 0", .process_name = "demo"}},
       {{.ts_ns = 20}, event::OsLogLine{.subsystem = "kernel", .category = "crash", .message = kLine}},
       {{.ts_ns = 20}, event::CrashHint{.target_pid = 7, .process_name = "demo", .text = kLine}},
       {{.ts_ns = 10},
        event::OomKill{.killed_pid = 9, .killed_name = "hog", .anon_rss_bytes = uint64_t{3} << 30}}});
  ASSERT_EQ(notes.crash.size(), 3U);
  EXPECT_EQ(notes.crash[0].text, "hog (9) was killed with 3.00 GiB in use");
  EXPECT_EQ(notes.crash[1].text, kLine);
  EXPECT_EQ(notes.crash[2].text, "demo (7): SIGSEGV at 0");
  EXPECT_EQ(notes.crash[2].report_path, "/var/crash/demo");
}

}  // namespace
}  // namespace smeltr::faces
