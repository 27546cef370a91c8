#include "crash/core_files.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <time.h>

#include <cstring>
#include <string>
#include <vector>

#include "crash/core_notes.h"
#include "unit/crash/samples.h"

namespace smeltr::crash {
namespace {

TEST(CorePattern, WhoGetsCoreFiles) {
  EXPECT_EQ(ParseCorePattern("\n").handler, CoreHandler::kNone);
  EXPECT_EQ(ParseCorePattern("|/usr/lib/systemd/systemd-coredump %P %u %g %s %t %c %h\n").handler,
            CoreHandler::kSystemdCoredump);
  EXPECT_EQ(ParseCorePattern("|/usr/share/apport/apport -p%p -s%s -c%c -d%d -P%P -u%u -g%g -- %E").handler,
            CoreHandler::kApport);
  EXPECT_EQ(ParseCorePattern("|/usr/libexec/abrt-hook-ccpp %s %c %p %u %g %t e %P %I %h").handler,
            CoreHandler::kAbrt);
  EXPECT_EQ(ParseCorePattern("|/bin/false").handler, CoreHandler::kOtherPipe);
  const CorePattern relative = ParseCorePattern("core\n");
  EXPECT_EQ(relative.handler, CoreHandler::kPath);
  EXPECT_EQ(relative.directory, "");
  EXPECT_EQ(relative.name, "core");
  const CorePattern absolute = ParseCorePattern("/var/crash/core.%e.%p");
  EXPECT_EQ(absolute.directory, "/var/crash");
  EXPECT_EQ(absolute.name, "core.%e.%p");
  EXPECT_EQ(ParseCorePattern("/core").directory, "/");
}

TEST(SystemdCoreName, AllParts) {
  const auto file =
      ParseSystemdCoreName("core.python3.1000.dfcda9a1a1cd406ebd88a339bec96fb6.51749.1738577400123456.zst");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->comm, "python3");
  EXPECT_EQ(file->uid, 1000U);
  EXPECT_EQ(file->boot_id, "dfcda9a1a1cd406ebd88a339bec96fb6");
  EXPECT_EQ(file->pid, 51749U);
  EXPECT_EQ(file->unix_ns, 1'738'577'400'123'456'000U);
}

TEST(SystemdCoreName, EscapedNameAndNoCompression) {
  const auto file = ParseSystemdCoreName(
      "core.Web\\x20Content\\x2e1.0.dfcda9a1a1cd406ebd88a339bec96fb6.7.1738577400000000");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->comm, "Web Content.1");
}

TEST(SystemdCoreName, WhatIsNone) {
  for (const char* name : {"", "core", "core.x", ".#core.x.0.dfcda9a1a1cd406ebd88a339bec96fb6.7.1.zst0123",
                           "core.x.0.short.7.1", "core..0.dfcda9a1a1cd406ebd88a339bec96fb6.7.1",
                           "core.x.0.dfcda9a1a1cd406ebd88a339bec96fb6.99999999999.1",
                           "core.x.0.dfcda9a1a1cd406ebd88a339bec96fb6.7.99999999999999999999"}) {
    EXPECT_FALSE(ParseSystemdCoreName(name).has_value()) << name;
  }
}

TEST(CoreName, SpecifiersAreFoundInTheName) {
  const CorePattern pattern = ParseCorePattern("/cores/core.%e.%p.%s.%t.%u-%h%%");
  const auto file = MatchCoreName(pattern, true, "core.my.prog.1.4711.11.1738577400.1000-host-2%");
  ASSERT_TRUE(file.has_value());
  EXPECT_EQ(file->comm, "my.prog.1");
  EXPECT_EQ(file->pid, 4711U);
  EXPECT_EQ(file->signal, 11U);
  EXPECT_EQ(file->uid, 1000U);
  EXPECT_EQ(file->unix_ns, 1'738'577'400'000'000'000U);
  EXPECT_FALSE(MatchCoreName(pattern, true, "core.x.y.11.1.1-h%").has_value());
  EXPECT_FALSE(MatchCoreName(pattern, true, "").has_value());
}

TEST(CoreName, PathsAndAppendedPids) {
  EXPECT_EQ(MatchCoreName(ParseCorePattern("/c/%E"), false, "!usr!bin!x")->executable, "/usr/bin/x");
  const CorePattern plain = ParseCorePattern("core");
  EXPECT_TRUE(MatchCoreName(plain, false, "core").has_value());
  EXPECT_FALSE(MatchCoreName(plain, false, "core.12").has_value());
  EXPECT_EQ(MatchCoreName(plain, true, "core.12")->pid, 12U);
  EXPECT_FALSE(MatchCoreName(plain, false, "core.c").has_value());
  EXPECT_FALSE(MatchCoreName(ParseCorePattern("|/x"), false, "").has_value());
}

// Every % matches anything: trying all ways to share the name out would never end.
TEST(CoreName, ManySpecifiersTakeNoTime) {
  std::string pattern = "/c/";
  for (int i = 0; i < 60; ++i) pattern += "%e";
  EXPECT_FALSE(MatchCoreName(ParseCorePattern(pattern + "!"), false, std::string(255, 'a')).has_value());
  EXPECT_TRUE(MatchCoreName(ParseCorePattern(pattern), false, std::string(255, 'a')).has_value());
}

TEST(Apport, ReportOfACrash) {
  const auto crash = ParseApportReport(Sample("_usr_bin_python3.12.1000.crash"));
  ASSERT_TRUE(crash.has_value());
  EXPECT_EQ(crash->executable, "/usr/bin/python3.12");
  EXPECT_EQ(crash->process_name, "python3");
  EXPECT_EQ(crash->pid, 51749U);
  EXPECT_EQ(crash->signal, 11U);
  tm local{};
  local.tm_year = 126, local.tm_mon = 2, local.tm_mday = 13;
  local.tm_hour = 14, local.tm_min = 5, local.tm_sec = 9, local.tm_isdst = -1;
  EXPECT_EQ(crash->unix_ns, static_cast<uint64_t>(::mktime(&local)) * 1'000'000'000);
}

TEST(Apport, FramesAndWhatIsNoCrash) {
  const auto crash = ParseApportReport(
      "ProblemType: Crash\nExecutablePath: /x\nSignal: 6\nStacktraceTop:\n raise () at raise.c:50\n abort "
      "()\n");
  EXPECT_EQ(crash->frames, (std::vector<std::string>{"raise () at raise.c:50", "abort ()"}));
  EXPECT_EQ(ParseApportReport("ProblemType: Package\n").error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(ParseApportReport("ProblemType: Crash\n").error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(ParseApportReport("").error().code(), ErrorCode::kUnavailable);
}

template <typename T>
void Put(std::string& bytes, size_t offset, T value) {
  if (bytes.size() < offset + sizeof(T)) bytes.resize(offset + sizeof(T));
  std::memcpy(bytes.data() + offset, &value, sizeof(T));
}

void AppendNote(uint32_t type, const std::string& content, std::string& segment) {
  Put(segment, segment.size(), uint32_t{5});
  Put(segment, segment.size(), static_cast<uint32_t>(content.size()));
  Put(segment, segment.size(), type);
  segment.append("CORE\0\0\0\0", 8).append(content);
}

std::string MakeCore() {
  std::string status(336, '\0');
  Put(status, 12, uint16_t{11});
  Put(status, 32, uint32_t{4712});
  std::string process(136, '\0');
  Put(process, 24, uint32_t{4711});
  std::memcpy(process.data() + 40, "vk_loop", 7);
  std::memcpy(process.data() + 56, "./vk_loop 3", 11);
  std::string signal(128, '\0');
  Put(signal, 0, uint32_t{11});
  Put(signal, 8, int32_t{1});
  Put(signal, 16, uint64_t{0xdead0});
  std::string notes;
  AppendNote(1, status, notes);
  AppendNote(3, process, notes);
  AppendNote(0x53494749, signal, notes);
  std::string core =
      "\x7f"
      "ELF\x02\x01\x01";
  core.resize(64);
  Put(core, 16, uint16_t{4});
  Put(core, 32, uint64_t{64});
  Put(core, 54, uint16_t{56});
  Put(core, 56, uint16_t{1});
  Put(core, 64, uint32_t{4});
  Put(core, 64 + 8, uint64_t{120});
  Put(core, 64 + 32, uint64_t{notes.size()});
  core.resize(120);
  return core + notes;
}

std::optional<CoreNotes> Read(std::string_view bytes) {
  return ReadCoreNotes(std::as_bytes(std::span(bytes)));
}

TEST(CoreNotes, WhoDiedAndOfWhat) {
  const auto notes = Read(MakeCore());
  ASSERT_TRUE(notes.has_value());
  EXPECT_EQ(notes->pid, 4711U);
  EXPECT_EQ(notes->signal, 11U);
  EXPECT_EQ(notes->signal_code, 1);
  EXPECT_EQ(notes->address, 0xdead0U);
  EXPECT_EQ(notes->comm, "vk_loop");
  EXPECT_EQ(notes->command_line, "./vk_loop 3");
}

TEST(CoreNotes, CutAnywhereItIsSafe) {
  const std::string core = MakeCore();
  for (size_t size = 0; size < 120 + 12; ++size)
    EXPECT_FALSE(Read(std::string_view(core).substr(0, size)).has_value());
  EXPECT_EQ(Read(std::string_view(core).substr(0, 120 + 20 + 40))->signal, 11U);
  std::string executable = core;
  Put(executable, 16, uint16_t{2});
  EXPECT_FALSE(Read(executable).has_value());
}

}  // namespace
}  // namespace smeltr::crash
