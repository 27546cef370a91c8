#include <fmt/format.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/clock.h"
#include "crash/core_files.h"
#include "fake/event_list.h"
#include "fake/scratch.h"
#include "probe/crash_files_probe.h"
#include "probe/crash_reports.h"
#include "unit/crash/samples.h"

namespace smeltr::probe {
namespace {

namespace fs = std::filesystem;

constexpr const char* kBoot = "dfcda9a1a1cd406ebd88a339bec96fb6";

class CrashFilesTest : public fake::ScratchTest {
 protected:
  void Write(const fs::path& path, const std::string& content) {
    fs::create_directories((scratch() / path).parent_path());
    std::ofstream(scratch() / path, std::ios::binary | std::ios::trunc) << content;
  }
  void Age(const fs::path& path, int64_t seconds) {
    fs::last_write_time(scratch() / path, fs::file_time_type::clock::now() - std::chrono::seconds(seconds));
  }
  std::unique_ptr<Probe> Make(const std::string& pattern) {
    Write("core_pattern", pattern + "\n");
    Write("core_uses_pid", "0\n");
    for (const char* name : {"systemd", "apport", "abrt", "cores"}) fs::create_directories(scratch() / name);
    return MakeCrashFilesProbe(CrashDirectories{.core_pattern = At("core_pattern"),
                                                .core_uses_pid = At("core_uses_pid"),
                                                .systemd = At("systemd"),
                                                .apport = At("apport"),
                                                .abrt = At("abrt")});
  }
  std::string At(const std::string& path) const { return (scratch() / path).native(); }
  Status Sample(Probe& probe) {
    Context context;
    context.now_ns = MonotonicNowNs();
    context.recordings = recordings_;
    return probe.Sample(context, events_);
  }
  std::vector<event::CrashReportEmitted> Reports() const { return events_.All<event::CrashReportEmitted>(); }

  std::vector<Recorded> recordings_;
  fake::EventList events_;
};

TEST_F(CrashFilesTest, SystemdCoredump) {
  const auto probe = Make("|/usr/lib/systemd/systemd-coredump %P %u %g %s %t %c %h");
  EXPECT_EQ(Sample(*probe).health, Health::kOk);
  Write(fmt::format("systemd/.#core.x.0.{}.7.1.zst123", kBoot), "");
  Write(fmt::format("systemd/core.python3.1000.{}.51749.1738577400123456.zst", kBoot), "x");
  Sample(*probe);
  Sample(*probe);
  ASSERT_EQ(Reports().size(), 1U);
  EXPECT_EQ(Reports()[0].crashed_pid, 51749U);
  EXPECT_EQ(Reports()[0].process_name.view, "python3");
  EXPECT_EQ(Reports()[0].report_unix_ns, 1'738'577'400'123'456'000U);
  fs::remove_all(scratch() / "systemd");
  EXPECT_EQ(Sample(*probe).health, Health::kDegraded);
}

TEST_F(CrashFilesTest, ApportReportIsReadWhenItIsComplete) {
  const auto probe = Make("|/usr/share/apport/apport -p%p -s%s");
  const std::string whole = crash::Sample("_usr_bin_python3.12.1000.crash");
  Write("apport/a.crash", "ProblemType: Crash\n");
  Sample(*probe);
  EXPECT_TRUE(Reports().empty());
  Write("apport/a.crash", whole);
  Sample(*probe);
  ASSERT_EQ(Reports().size(), 1U);
  EXPECT_EQ(Reports()[0].signal.view, "SIGSEGV");
  EXPECT_EQ(Reports()[0].summary.view, "/usr/bin/python3.12 killed by SIGSEGV");
  Write("apport/b.crash", "ProblemType: Package\n");
  Sample(*probe);
  EXPECT_EQ(Reports().size(), 1U);
}

TEST_F(CrashFilesTest, AbrtDirectory) {
  const auto probe = Make("|/usr/libexec/abrt-hook-ccpp %s %c");
  Write("abrt/ccpp-2026-01-01-1.new/pid", "9");
  Write("abrt/ccpp-2026-01-01-1/pid", "4711\n");
  Write("abrt/ccpp-2026-01-01-1/executable", "/usr/bin/x");
  Write("abrt/ccpp-2026-01-01-1/reason", "x killed by SIGABRT");
  Write("abrt/ccpp-2026-01-01-1/time", "1738577400");
  Sample(*probe);
  ASSERT_EQ(Reports().size(), 1U);
  EXPECT_EQ(Reports()[0].crashed_pid, 4711U);
  EXPECT_EQ(Reports()[0].signal.view, "SIGABRT");
}

TEST_F(CrashFilesTest, PatternsThatHideCrashes) {
  for (const char* pattern : {"", "|/bin/false", "core", "/no/such/directory/core", "/cores/%e/core"}) {
    const auto probe = Make(pattern);
    const Status status = Sample(*probe);
    EXPECT_EQ(status.health, Health::kDegraded) << pattern;
    EXPECT_FALSE(status.reason.empty());
  }
}

TEST_F(CrashFilesTest, AChangedPatternIsNoticed) {
  const auto probe = Make("|/bin/false");
  EXPECT_EQ(Sample(*probe).health, Health::kDegraded);
  Write("core_pattern", "|/usr/share/apport/apport %p\n");
  EXPECT_EQ(Sample(*probe).health, Health::kOk);
  Write("apport/a.crash", crash::Sample("_usr_bin_python3.12.1000.crash"));
  Sample(*probe);
  EXPECT_EQ(Reports().size(), 1U);
}

TEST_F(CrashFilesTest, AppleReportsFromAGivenDirectory) {
  SetEnv("SMELTR_DIAGNOSTIC_REPORTS_DIR", At("apple"));
  const std::string whole = crash::Sample("abort.ips");
  Write("apple/old.ips", whole);
  Age("apple/old.ips", 3600);
  const auto probe = Make("|/bin/false");
  Sample(*probe);
  EXPECT_TRUE(Reports().empty());  // From before our time.
  Write("apple/new.ips", whole.substr(0, 500));
  Sample(*probe);
  EXPECT_TRUE(Reports().empty());
  Write("apple/new.ips", whole);
  Sample(*probe);
  ASSERT_EQ(Reports().size(), 1U);
  EXPECT_EQ(Reports()[0].crashed_pid, 18254U);
  EXPECT_EQ(Reports()[0].frames.size(), 10U);
  fs::copy_file(scratch() / "apple/new.ips", scratch() / "apple/same incident.ips");
  fs::create_symlink("/dev/zero", scratch() / "apple/link.ips");
  ASSERT_EQ(::mkfifo(At("apple/fifo.ips").c_str(), 0600), 0);
  Sample(*probe);
  EXPECT_EQ(Reports().size(), 1U);
}

TEST_F(CrashFilesTest, EveryJetsamVictim) {
  SetEnv("SMELTR_DIAGNOSTIC_REPORTS_DIR", At("apple"));
  const auto probe = Make("|/bin/false");
  Sample(*probe);
  Write("apple/.tmp", crash::Sample("jetsam.ips"));
  Sample(*probe);
  fs::rename(scratch() / "apple/.tmp", scratch() / "apple/JetsamEvent.ips");
  Sample(*probe);
  const auto kills = events_.All<event::JetsamKill>();
  ASSERT_EQ(kills.size(), 2U);
  EXPECT_EQ(kills[0].killed_name.view, "MemoryTest");
  EXPECT_EQ(kills[0].footprint_bytes, 1400U << 20);
  EXPECT_EQ(kills[0].reason.view, "per-process-limit");
  EXPECT_TRUE(Reports().empty());
}

// With a real crash, where this system writes core files into the working directory.
TEST_F(CrashFilesTest, CoreFileOfARecordedProgram) {
  std::string pattern;
  std::getline(std::ifstream("/proc/sys/kernel/core_pattern"), pattern);
  std::string uses_pid;
  std::getline(std::ifstream("/proc/sys/kernel/core_uses_pid"), uses_pid);
  rlimit limit{};
  ::getrlimit(RLIMIT_CORE, &limit);
  if (crash::ParseCorePattern(pattern).handler != crash::CoreHandler::kPath ||
      pattern.find('/') != std::string::npos || limit.rlim_max == 0) {
    GTEST_SKIP() << "core files go elsewhere: " << pattern;
  }
  const auto probe = Make(pattern);
  Write("core_uses_pid", uses_pid);
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_CORE, &limit);
    char go = 0;
    if (::chdir(At("cores").c_str()) != 0 || ::read(ends[0], &go, 1) != 1) ::_exit(1);
    ::signal(SIGSEGV, SIG_DFL);
    ::raise(SIGSEGV);
    ::_exit(1);
  }
  ::close(ends[0]);
  recordings_.push_back({.session_id = "s", .token = "", .root_pid = static_cast<uint32_t>(child)});
  while (fs::read_symlink(fmt::format("/proc/{}/cwd", child)) != scratch() / "cores") ::usleep(1000);
  const Status status = Sample(*probe);
  EXPECT_EQ(status.health, Health::kDegraded);
  ASSERT_EQ(::write(ends[1], "g", 1), 1);
  ::close(ends[1]);
  int how = 0;
  ::waitpid(child, &how, 0);
  ASSERT_TRUE(WIFSIGNALED(how) && WCOREDUMP(how));
  Sample(*probe);
  ASSERT_EQ(Reports().size(), 1U);
  EXPECT_EQ(Reports()[0].crashed_pid, static_cast<uint32_t>(child));
  EXPECT_EQ(Reports()[0].signal.view, "SIGSEGV");
  EXPECT_EQ(Reports()[0].process_name.view, "tests_probe");
}

TEST(IncidentMemoryTest, TheLastOnesAreKnown) {
  IncidentMemory memory;
  for (int i = 0; i <= 512; ++i) EXPECT_TRUE(memory.Remember(std::to_string(i)));
  EXPECT_FALSE(memory.Remember("512"));
  EXPECT_FALSE(memory.Remember("1"));
  EXPECT_TRUE(memory.Remember("0"));
}

TEST_F(CrashFilesTest, DirectoryIsReadOnlyWhenSomethingChanged) {
  ReportDirectory directory(scratch(), ReportDirectory::Entries::kFiles, 0);
  int looked_at = 0;
  const auto accept = [&](std::string_view) {
    ++looked_at;
    return true;
  };
  const auto read = [](const fs::path&) { return true; };
  Write("a", "1");
  Age(".", 100);
  const uint64_t now_ns = WallNowNs();
  EXPECT_TRUE(directory.Scan(now_ns, accept, read));
  const int first = looked_at;
  EXPECT_GT(first, 0);
  EXPECT_TRUE(directory.Scan(now_ns, accept, read));
  EXPECT_EQ(looked_at, first);
  Write("b", "1");
  EXPECT_TRUE(directory.Scan(now_ns, accept, read));
  EXPECT_GT(looked_at, first);
  EXPECT_FALSE(
      ReportDirectory(scratch() / "none", ReportDirectory::Entries::kFiles, 0).Scan(now_ns, accept, read));
}

}  // namespace
}  // namespace smeltr::probe
