#include "ring/life_lock.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <functional>
#include <string>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

using fake::ScratchDirectory;

constexpr SegmentOptions kSmall{.block_count = kFatalBlockCount + 1};

// A process that says what it did and then waits to be told to end.
class Child {
 public:
  // `body` gets the descriptor of a pipe to write one byte to. 'x' stands for "not possible here".
  explicit Child(const std::function<void(int)>& body) {
    std::array<int, 2> pipe{};
    EXPECT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
    told_ = Fd(pipe[0]);
    Fd tell(pipe[1]);
    pid_ = ::fork();
    if (pid_ == 0) {
      body(tell.get());
      while (true) ::pause();
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;
  ~Child() { End(); }

  char Wait() const {
    char byte = 0;
    return ::read(told_.get(), &byte, 1) == 1 ? byte : 'x';
  }
  void End() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = 0;
  }
  pid_t pid() const { return pid_; }

 private:
  Fd told_;
  pid_t pid_ = 0;
};

void Tell(int fd, char byte) {
  if (::write(fd, &byte, 1) != 1) ::_exit(1);
}

// Ends the processes that wait for it, wherever they are, with the test.
class EndOfTest {
 public:
  EndOfTest() { EXPECT_EQ(::pipe2(pipe_.data(), O_CLOEXEC), 0); }
  EndOfTest(const EndOfTest&) = delete;
  EndOfTest& operator=(const EndOfTest&) = delete;
  ~EndOfTest() {
    ::close(pipe_[1]);
    ::close(pipe_[0]);
  }
  // First thing in a forked child: it must not keep the others waiting.
  void Forked() const { ::close(pipe_[1]); }
  [[noreturn]] void ExitThen() const {
    char byte = 0;
    static_cast<void>(!::read(pipe_[0], &byte, 1));
    ::_exit(0);
  }

 private:
  std::array<int, 2> pipe_{};
};

void CreateAndTell(const std::string& directory, int tell) {
  auto segment = Segment::Create(directory.c_str(), kSmall);
  if (segment.has_value()) static_cast<void>(segment->Leak());
  Tell(tell, segment.has_value() ? 'c' : 'x');
}

Reader Open(const std::string& path) { return Reader(Segment::Map(path.c_str()).value()); }

TEST(LifeLock, IsHeldWhileTheCreatorLives) {
  const ScratchDirectory directory;
  Child child([&](int tell) { CreateAndTell(directory.path(), tell); });
  ASSERT_EQ(child.Wait(), 'c');
  const std::string path = directory.Rings().at(0);
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(IsLifeLocked(file.get()));
  EXPECT_TRUE(Open(path).owner_alive());
  child.End();
  EXPECT_FALSE(IsLifeLocked(file.get()));
  EXPECT_FALSE(Open(path).owner_alive());
}

TEST(LifeLock, AForkedChildHasNone) {
  const ScratchDirectory directory;
  const EndOfTest end;
  Child parent([&](int tell) {
    end.Forked();
    auto segment = Segment::Create(directory.path().c_str(), kSmall);
    if (!segment.has_value()) ::_exit(1);
    static_cast<void>(segment->Leak());
    const pid_t grandchild = ::fork();
    if (grandchild == 0) {
      // It outlives its parent, with the descriptor open.
      Tell(tell, 'g');
      end.ExitThen();
    }
    Tell(tell, 'p');
  });
  const std::string told{parent.Wait(), parent.Wait()};
  ASSERT_TRUE(told == "gp" || told == "pg");
  const Fd file(::open(directory.Rings().at(0).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_TRUE(IsLifeLocked(file.get()));
  parent.End();
  EXPECT_FALSE(IsLifeLocked(file.get()));
}

TEST(LifeLock, ExecGivesItUp) {
  const ScratchDirectory directory;
  std::array<int, 2> gone{};
  ASSERT_EQ(::pipe2(gone.data(), O_CLOEXEC), 0);
  Child child([&](int tell) {
    CreateAndTell(directory.path(), tell);
    // Closed by exec, which the reader of the pipe sees.
    ::execlp("sleep", "sleep", "30", nullptr);
    ::_exit(1);
  });
  ASSERT_EQ(child.Wait(), 'c');
  ASSERT_EQ(child.Wait(), 'x') << "the end of the pipe is the exec";
  const Fd file(::open(directory.Rings().at(0).c_str(), O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(IsLifeLocked(file.get()));
  EXPECT_TRUE(Open(directory.Rings().at(0)).owner_alive()) << "the process runs: its next ring is to come";
  ::close(gone[0]);
  ::close(gone[1]);
}

// A daemon outside a container: the pid in the ring is not one that it knows, or is somebody else's.
TEST(LifeLock, TellsOfProcessesInOtherPidNamespaces) {
  const ScratchDirectory directory;
  const EndOfTest end;
  Child child([&](int tell) {
    end.Forked();
    if (::unshare(CLONE_NEWPID) != 0) return Tell(tell, 'x');
    const pid_t inner = ::fork();
    if (inner == 0) {
      // The first process of a namespace ignores signals of its own.
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      CreateAndTell(directory.path(), tell);
      end.ExitThen();
    }
  });
  if (child.Wait() != 'c') GTEST_SKIP() << "may not make a PID namespace";
  const Reader reader = Open(directory.Rings().at(0));
  EXPECT_EQ(reader.process().pid, 1U);
  EXPECT_FALSE(IsAlive(reader.process())) << "this is what the daemon went by before";
  EXPECT_TRUE(reader.owner_alive());
}

TEST(LifeLock, KeepsAwayFromTheNumbersThatProgramsExpect) {
  const ScratchDirectory directory;
  Child child([&](int tell) {
    ::close(STDIN_FILENO);
    auto segment = Segment::Create(directory.path().c_str(), kSmall);
    if (!segment.has_value()) ::_exit(1);
    const int fd = segment->Leak();
    const bool next_is_stdin = ::open("/dev/null", O_RDONLY | O_CLOEXEC) == STDIN_FILENO;
    const bool closed_on_exec = (::fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
    Tell(tell, fd > 2 && next_is_stdin && closed_on_exec ? 'c' : 'x');
  });
  EXPECT_EQ(child.Wait(), 'c');
}

TEST(LifeLock, ANumberThatMeansAnotherFileNowIsLeftAlone) {
  const ScratchDirectory directory;
  auto segment = Segment::Create(directory.path().c_str(), kSmall);
  ASSERT_TRUE(segment.has_value());
  const LockedFile file = Remember(segment->Leak());
  ASSERT_GE(file.fd, 0);
  // The program closed what it does not know, and uses the number itself.
  const Fd other(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ASSERT_EQ(::dup2(other.get(), file.fd), file.fd);
  CloseInherited(file);
  EXPECT_NE(::fcntl(file.fd, F_GETFD), -1);
  const LockedFile as_it_is = Remember(file.fd);
  CloseInherited(as_it_is);
  EXPECT_EQ(::fcntl(file.fd, F_GETFD), -1);
  CloseInherited(as_it_is);
  CloseInherited({});
}

}  // namespace
}  // namespace smeltr::ring
