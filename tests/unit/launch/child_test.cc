#include "launch/child.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake/scratch.h"
#include "util/file.h"
#include "util/process.h"

namespace smeltr::launch {
namespace {

class ChildTest : public fake::ScratchTest {
 protected:
  static Command Shell(const std::string& script) {
    return {"/bin/sh", {"sh", "-c", script}, {"PATH=/bin:/usr/bin"}};
  }
};

TEST_F(ChildTest, NothingRunsBeforeRelease) {
  const auto mark = scratch() / "ran";
  const SignalGuard signals;
  Child child = std::move(Child::SpawnHeld(Shell("echo x > " + mark.native()), signals)).value();
  EXPECT_EQ(ReadProcessFacts(child.pid())->parent_pid, static_cast<uint32_t>(::getpid()));
  EXPECT_EQ(ProcessExecutable(child.pid()), ProcessExecutable(::getpid()));
  EXPECT_FALSE(std::filesystem::exists(mark));
  ASSERT_TRUE(child.Release().has_value());
  EXPECT_EQ(child.Wait(signals).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(mark));
}

TEST_F(ChildTest, UnreleasedChildDies) {
  const SignalGuard signals;
  pid_t pid = 0;
  {
    const Child child = std::move(Child::SpawnHeld(Shell("true"), signals)).value();
    pid = child.pid();
  }
  EXPECT_FALSE(ReadProcessFacts(pid).has_value());
}

TEST_F(ChildTest, EndsAreTold) {
  const SignalGuard signals;
  Child exits = std::move(Child::SpawnHeld(Shell("exit 7"), signals)).value();
  ASSERT_TRUE(exits.Release().has_value());
  const ExitStatus exited = exits.Wait(signals);
  EXPECT_EQ(exited.exit_code, 7);
  EXPECT_EQ(exited.term_signal, std::nullopt);
  EXPECT_GT(exited.max_rss_bytes, 0U);
  EXPECT_EQ(ShellStatus(exited), 7);

  Child dies = std::move(Child::SpawnHeld(Shell("kill -9 $$"), signals)).value();
  ASSERT_TRUE(dies.Release().has_value());
  const ExitStatus died = dies.Wait(signals);
  EXPECT_EQ(died.exit_code, std::nullopt);
  EXPECT_EQ(died.term_signal, 9);
  EXPECT_EQ(ShellStatus(died), 137);
}

TEST_F(ChildTest, FailedExecIsAnError) {
  const SignalGuard signals;
  Child child = std::move(Child::SpawnHeld({(scratch() / "none").native(), {"none"}, {}}, signals)).value();
  EXPECT_EQ(child.Release().error().code(), ErrorCode::kNotFound);
  EXPECT_FALSE(ReadProcessFacts(child.pid()).has_value());
}

TEST_F(ChildTest, IgnoredChildSignalStillGivesTheStatus) {
  // Some starters leave SIGCHLD ignored; the child must find it so, and record must still learn the end.
  struct sigaction ignore{};
  struct sigaction before{};
  ignore.sa_handler = SIG_IGN;
  ASSERT_EQ(::sigaction(SIGCHLD, &ignore, &before), 0);
  {
    const SignalGuard signals;
    // Bit 16 of SigIgn is SIGCHLD. Not by way of a shell: those reset it.
    const Command grep{"/usr/bin/env",
                       {"env", "grep", "-q", "SigIgn:.*1....$", "/proc/self/status"},
                       {"PATH=/bin:/usr/bin"}};
    Child child = std::move(Child::SpawnHeld(grep, signals)).value();
    ASSERT_TRUE(child.Release().has_value());
    EXPECT_EQ(child.Wait(signals).exit_code, 0);
  }
  struct sigaction after{};
  ASSERT_EQ(::sigaction(SIGCHLD, &before, &after), 0);
  EXPECT_EQ(after.sa_handler, SIG_IGN);
}

TEST_F(ChildTest, ALimitOfFileSizesEndsTheProgramButNotRecord) {
  struct sigaction inside{};
  {
    const SignalGuard signals;
    ASSERT_EQ(::sigaction(SIGXFSZ, nullptr, &inside), 0);
    EXPECT_EQ(inside.sa_handler, SIG_IGN);
    // Bit 24 of SigIgn is SIGXFSZ.
    const Command grep{"/bin/grep", {"grep", "-q", "SigIgn:.*[02468ace]......$", "/proc/self/status"}, {}};
    Child child = std::move(Child::SpawnHeld(grep, signals)).value();
    ASSERT_TRUE(child.Release().has_value());
    EXPECT_EQ(child.Wait(signals).exit_code, 0);
  }
  struct sigaction after{};
  ASSERT_EQ(::sigaction(SIGXFSZ, nullptr, &after), 0);
  EXPECT_EQ(after.sa_handler, SIG_DFL);
}

TEST_F(ChildTest, AnEnvironmentTooLongIsReplaced) {
  const SignalGuard signals;
  Command command = Shell("test \"$SHORT\" = 1");
  command.environment.push_back("LONG=" + std::string(1 << 20, 'x'));
  {
    Child child = std::move(Child::SpawnHeld(command, signals)).value();
    EXPECT_FALSE(child.Release().has_value());
  }
  command.shorter_environment = {"SHORT=1"};
  Child child = std::move(Child::SpawnHeld(command, signals)).value();
  ASSERT_TRUE(child.Release().has_value());
  EXPECT_EQ(child.Wait(signals).exit_code, 0);
}

TEST_F(ChildTest, MaskIsRestoredForTheChildAndAfterwards) {
  sigset_t before;
  ASSERT_EQ(::sigprocmask(SIG_SETMASK, nullptr, &before), 0);
  {
    const SignalGuard signals;
    Child child =
        std::move(Child::SpawnHeld(Shell("exec grep -q 'SigBlk:.0*$' /proc/self/status"), signals)).value();
    ASSERT_TRUE(child.Release().has_value());
    EXPECT_EQ(child.Wait(signals).exit_code, 0);
  }
  sigset_t after;
  ASSERT_EQ(::sigprocmask(SIG_SETMASK, nullptr, &after), 0);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal)) << signal;
  }
}

}  // namespace
}  // namespace smeltr::launch
