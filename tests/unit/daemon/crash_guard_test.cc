#include "daemon/crash_guard.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <new>
#include <string>
#include <thread>

#include "daemon/crash_reports.h"
#include "fake/scratch.h"
#include "session/reader.h"
#include "session/segmented_writer.h"
#include "session/store.h"
#include "util/file.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

class CrashGuardTest : public fake::ScratchTest {
 protected:
  CrashGuardTest() { SetLogLevel(LogLevel::kNothing); }
  ~CrashGuardTest() override { SetLogLevel(LogLevel::kInfo); }

  // Runs `body` in a guarded child; how that ended, as waitpid() tells.
  int RunChild(const std::function<void(CrashGuard&)>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      const rlimit no_core{0, 0};
      ::setrlimit(RLIMIT_CORE, &no_core);
      // As in smeltrd: nothing catches what is thrown.
      [&]() noexcept {
        auto guard = CrashGuard::Install(scratch(), "1.2.3");
        if (!guard.has_value()) ::_exit(1);
        body(*guard);
      }();
      ::_exit(0);
    }
    child_ = child;
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  }
  std::filesystem::path report_file() const {
    return scratch() / ("crash-" + std::to_string(child_) + ".txt");
  }
  std::string Report() const { return ReadFile(report_file()).value_or(""); }

  pid_t child_ = 0;
};

// UBSan would stop it before the processor does.
__attribute__((noinline, no_sanitize("undefined"))) void ReadNull() {
  volatile int* null = nullptr;
  asm volatile("" : "+r"(null));
  *null = 1;
}

TEST_F(CrashGuardTest, AFatalSignalLeavesAReportAndTheSameDeath) {
  const int status = RunChild([](CrashGuard&) { ReadNull(); });
  ASSERT_TRUE(WIFSIGNALED(status));
  EXPECT_EQ(WTERMSIG(status), SIGSEGV);
  const std::string report = Report();
  EXPECT_TRUE(report.starts_with(kCrashReportTitle)) << report;
  EXPECT_NE(report.find("\nversion 1.2.3\n"), std::string::npos) << report;
  EXPECT_NE(report.find("\nsignal SIGSEGV (11) at 0x0\n"), std::string::npos) << report;
  EXPECT_NE(report.find("\nthread main\n"), std::string::npos) << report;
  // The frames are there, with the module that they are relative to.
  const size_t backtrace = report.find("\nbacktrace\n");
  ASSERT_NE(backtrace, std::string::npos);
  EXPECT_NE(report.find("/tests_daemon+0x", backtrace), std::string::npos) << report;
  EXPECT_EQ(report.find("reason"), std::string::npos);
}

TEST_F(CrashGuardTest, EverySignalOfADyingProgramIsCaught) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) {
    const int status = RunChild([&](CrashGuard&) { ::raise(signal); });
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(WTERMSIG(status), signal);
    EXPECT_NE(Report().find("(" + std::to_string(signal) + ")"), std::string::npos);
  }
}

TEST_F(CrashGuardTest, AnExceptionThatNobodyCatchesIsNamed) {
  const int status = RunChild([](CrashGuard&) { Crash(TestCrash::Way::kThrow); });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
  EXPECT_NE(Report().find("\nreason SMELTR_TEST_CRASH asked for it\n"), std::string::npos) << Report();
}

TEST_F(CrashGuardTest, AStackThatIsFullIsNoObstacle) {
  const int status = RunChild([](CrashGuard&) {
    std::function<size_t(size_t)> deeper = [&](size_t depth) -> size_t {
      volatile char frame[4096] = {};
      frame[depth % sizeof(frame)] = 1;
      return deeper(depth + 1) + static_cast<size_t>(frame[0]);
    };
    deeper(0);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_NE(Report().find("\nbacktrace\n"), std::string::npos);
}

TEST_F(CrashGuardTest, WhatIsBufferedReachesTheDisk) {
  const int status = RunChild([&](CrashGuard& guard) {
    auto writer = session::SegmentedWriter::Create(scratch(), {});
    writer->Append({{.ts_ns = 1}, event::Mark{.label = "the last words"}});
    guard.SetFlush([](void* context) { static_cast<session::SegmentedWriter*>(context)->FlushIfIdle(); },
                   &*writer);
    ReadNull();
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  const auto reader = session::Reader::Open(scratch() / "events.smlt");
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->summary().event_count, 1U);
  EXPECT_FALSE(reader->damage().any());
}

TEST_F(CrashGuardTest, ACrashOnAnotherThreadFlushesOnTheOwners) {
  const int status = RunChild([&](CrashGuard& guard) {
    static pthread_t owner;
    static std::string file;
    owner = ::pthread_self();
    file = (scratch() / "flushed").native();
    guard.SetFlush(
        [](void*) {
          const bool on_owner = ::pthread_equal(::pthread_self(), owner) != 0;
          ::close(::open(on_owner ? file.c_str() : "/dev/null", O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
        },
        nullptr);
    std::thread([] { ReadNull(); }).join();
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_TRUE(std::filesystem::exists(scratch() / "flushed"));
  EXPECT_NE(Report().find("\nthread other\n"), std::string::npos);
}

TEST_F(CrashGuardTest, AFlushThatCrashesOrHangsDoesNotKeepItAlive) {
  int status = RunChild([](CrashGuard& guard) {
    guard.SetFlush([](void*) { ReadNull(); }, nullptr);
    ::raise(SIGABRT);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGSEGV);
  EXPECT_NE(Report().find("SIGABRT"), std::string::npos) << "the first one's report";
  status = RunChild([](CrashGuard& guard) {
    guard.SetFlush([](void*) { ::pause(); }, nullptr);
    ::raise(SIGABRT);
  });
  EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM);
}

TEST_F(CrashGuardTest, WithoutACrashNothingIsLeft) {
  const int status = RunChild([](CrashGuard&) {});
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(std::filesystem::exists(report_file()));
}

TEST_F(CrashGuardTest, AReportBecomesOnePostMortemOfWhatWasOpen) {
  const std::filesystem::path sessions = scratch() / "sessions";
  session::Metadata metadata;
  metadata.name = "open";
  const auto open = session::CreateSession(sessions, metadata);
  metadata = {};
  metadata.ended_rfc3339 = "2026-03-01T00:00:00Z";
  const auto closed = session::CreateSession(sessions, metadata);
  RunChild([](CrashGuard&) { ReadNull(); });
  const std::string report = Report();

  const auto dumps = RecoverCrashReports(scratch(), sessions);
  ASSERT_EQ(dumps.size(), 1U);
  EXPECT_FALSE(std::filesystem::exists(report_file()));
  EXPECT_TRUE(dumps[0].directory.filename().native().starts_with("post-mortem-daemon-panic-"));
  EXPECT_EQ(ReadFile(dumps[0].directory / kPanicReportFile).value_or(""), report);
  const auto about = session::ReadMetadata(dumps[0].directory);
  ASSERT_TRUE(about.has_value());
  EXPECT_EQ(about->kind, session::SessionKind::kPostMortem);
  EXPECT_EQ(about->source_session_id, open->metadata.session_id);
  EXPECT_EQ(about->related_sessions, std::vector<std::string>{open->metadata.session_id});
  EXPECT_EQ(about->smeltr_version, "1.2.3");
  ASSERT_EQ(about->triggers.size(), 1U);
  EXPECT_EQ(about->triggers[0].text, "smeltrd crashed: SIGSEGV (11) at 0x0");
  EXPECT_FALSE(about->ended_rfc3339.empty());
  EXPECT_EQ(session::Reader::Open(dumps[0].directory / session::kEventsFile)->summary().event_count, 1U);
  EXPECT_EQ(session::ReadMetadata(open->directory)->post_mortems,
            std::vector<std::string>{dumps[0].session_id});
  EXPECT_TRUE(session::ReadMetadata(open->directory)->ended_rfc3339.empty()) << "still to be adopted";
  EXPECT_TRUE(session::ReadMetadata(closed->directory)->post_mortems.empty());

  EXPECT_TRUE(RecoverCrashReports(scratch(), sessions).empty()) << "once";
}

TEST_F(CrashGuardTest, WhatIsNoReportIsRemovedOrLeftAlone) {
  const auto write = [&](const std::string& name, std::string_view text) {
    ASSERT_TRUE(WriteFileAtomically(scratch() / name, text, 0600, FileSync::kNone).has_value());
  };
  write("crash-1.txt", "");
  write("crash-2.txt", "something else");
  write("crash-x.txt", kCrashReportTitle);
  write("crash-.txt", kCrashReportTitle);
  std::filesystem::create_directory(scratch() / "crash-3.txt");
  std::filesystem::create_symlink("/etc/hostname", scratch() / "crash-4.txt");
  EXPECT_TRUE(RecoverCrashReports(scratch(), scratch() / "sessions").empty());
  EXPECT_FALSE(std::filesystem::exists(scratch() / "crash-1.txt"));
  EXPECT_FALSE(std::filesystem::exists(scratch() / "crash-2.txt"));
  EXPECT_TRUE(std::filesystem::exists(scratch() / "crash-x.txt"));
  EXPECT_TRUE(std::filesystem::exists("/etc/hostname"));
  EXPECT_FALSE(std::filesystem::exists(scratch() / "sessions"));
  // Cut off in the middle: what there is of it counts.
  write("crash-5.txt", kCrashReportTitle);
  EXPECT_EQ(RecoverCrashReports(scratch(), scratch() / "sessions").size(), 1U);
}

TEST_F(CrashGuardTest, AReportWaitsForRoom) {
  RunChild([](CrashGuard&) { ::raise(SIGABRT); });
  std::filesystem::create_symlink("/proc/nowhere", scratch() / "sessions");
  EXPECT_TRUE(RecoverCrashReports(scratch(), scratch() / "sessions").empty());
  EXPECT_TRUE(std::filesystem::exists(report_file()));
}

TEST(ParseTestCrash, ReadsWayAndTime) {
  EXPECT_EQ(ParseTestCrash("segv:500")->way, TestCrash::Way::kSegv);
  EXPECT_EQ(ParseTestCrash("segv:500")->after_ns, 500'000'000U);
  EXPECT_EQ(ParseTestCrash("abort:0")->way, TestCrash::Way::kAbort);
  EXPECT_EQ(ParseTestCrash("throw:1")->way, TestCrash::Way::kThrow);
  for (const char* bad : {"", "segv", "segv:", "segv:x", "segv:1x", "other:1", ":1", "segv:-1"}) {
    EXPECT_FALSE(ParseTestCrash(bad).has_value()) << bad;
  }
}

}  // namespace
}  // namespace smeltr::daemon
