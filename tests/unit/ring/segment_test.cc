#include "ring/segment.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstddef>
#include <fstream>
#include <sstream>
#include <thread>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

using fake::ScratchDirectory;

constexpr SegmentOptions kSmall{.block_count = kFatalBlockCount + 1};

TEST(RingFileName, IsReadBack) {
  EXPECT_EQ(ParseRingFileName("123-4567.ring").value(), (ProcessIdentity{123, 4567}));
  EXPECT_EQ(ParseRingFileName("123-4567.12.ring").value(), (ProcessIdentity{123, 4567}));
  EXPECT_EQ(ParseRingFileName("4294967295-18446744073709551615.ring").value(),
            (ProcessIdentity{UINT32_MAX, UINT64_MAX}));
}

TEST(RingFileName, OthersAreRefused) {
  for (const char* name : {"",
                           ".ring",
                           "123.ring",
                           "123-.ring",
                           "-4567.ring",
                           "123-4567",
                           "123-4567.new",
                           "123-4567.ring2",
                           "123-4567.ring/",
                           "x123-4567.ring",
                           "123-4567x.ring",
                           "+1-2.ring",
                           "-1-2.ring",
                           " 1-2.ring",
                           "0-5.ring",
                           "01-5.ring",
                           "1-05.ring",
                           "4294967296-1.ring",
                           "1-18446744073709551616.ring",
                           "1-2.0.ring",
                           "1-2..ring",
                           "1-2.x.ring",
                           "1-2.3.4.ring",
                           "../1-2.ring"}) {
    EXPECT_FALSE(ParseRingFileName(name).has_value()) << name;
  }
}

TEST(Segment, IsPrivateWholeAndNamedForItsProcess) {
  ScratchDirectory directory;
  const auto segment = Segment::Create(directory.path().c_str(), {});
  ASSERT_TRUE(segment.has_value()) << segment.error().text();
  const ProcessIdentity self = SelfIdentity();
  EXPECT_EQ(self.pid, static_cast<uint32_t>(::getpid()));
  EXPECT_GT(self.start_time_ticks, 0U);
  const std::string path = directory.path() + "/" + std::to_string(self.pid) + "-" +
                           std::to_string(self.start_time_ticks) + ".ring";
  struct stat info{};
  ASSERT_EQ(::stat(path.c_str(), &info), 0) << path;
  EXPECT_EQ(info.st_mode & 07777, 0600U);
  EXPECT_EQ(static_cast<uint64_t>(info.st_size), GeometryOf(kDefaultBlockCount).total_bytes);
  EXPECT_GE(info.st_blocks * 512, info.st_size) << "every page is there before it is used";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1)
      << "nothing is left over";
}

// Asked for all the same, the system would end the program.
TEST(Segment, IsRefusedWhereTheProgramMayMakeNoSuchFile) {
  const ScratchDirectory directory;
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit limit{.rlim_cur = 1 << 20, .rlim_max = RLIM_INFINITY};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    const auto segment = Segment::Create(directory.path().c_str(), {});
    ::_exit(!segment.has_value() && segment.error().code() == ErrorCode::kUnavailable ? 7 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7) << status;
  EXPECT_TRUE(std::filesystem::is_empty(directory.path())) << "nothing is left over";
}

TEST(Segment, ANewRingOfTheSameProcessDoesNotReplaceTheLast) {
  ScratchDirectory directory;
  for (size_t count = 1; count <= 3; ++count) {
    ASSERT_TRUE(Segment::Create(directory.path().c_str(), kSmall).has_value());
    ASSERT_EQ(directory.Rings().size(), count);
    for (const std::string& path : directory.Rings()) {
      EXPECT_EQ(ParseRingFileName(std::filesystem::path(path).filename().string()).value(), SelfIdentity());
      EXPECT_TRUE(Segment::Map(path.c_str()).has_value());
    }
  }
}

TEST(Segment, SaysWhyItCannotBeCreated) {
  ScratchDirectory directory;
  const std::string missing = directory.path() + "/none";
  EXPECT_EQ(Segment::Create(missing.c_str(), kSmall).error().code(), ErrorCode::kNotFound);
  const std::string file = directory.path() + "/file";
  std::ofstream(file) << "x";
  EXPECT_EQ(Segment::Create(file.c_str(), kSmall).error().code(), ErrorCode::kNotFound);
  for (const uint32_t blocks : {0U, kFatalBlockCount, kMaxBlockCount + 1, UINT32_MAX}) {
    EXPECT_EQ(Segment::Create(directory.path().c_str(), {.block_count = blocks}).error().code(),
              ErrorCode::kInvalidArgument);
  }
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(directory.path()), {}), 1);
}

// A file system that filled up under a sparse ring once killed the program with SIGBUS.
TEST(Segment, IsNotCreatedWhereItCouldNotBeFilled) {
  ScratchDirectory directory;
  const char* path = directory.path().c_str();
  if (::mount("tmpfs", path, "tmpfs", 0, "size=8m") != 0) GTEST_SKIP() << "may not mount a small file system";
  const auto segment = Segment::Create(path, {});
  const bool left_something =
      std::filesystem::directory_iterator(path) != std::filesystem::directory_iterator();
  ASSERT_EQ(::umount(path), 0);
  ASSERT_FALSE(segment.has_value());
  EXPECT_EQ(segment.error().code(), ErrorCode::kNoSpace);
  EXPECT_FALSE(left_something);
}

TEST(Segment, MapsOnlyRegularFilesThatAreRings) {
  ScratchDirectory directory;
  const std::string file = directory.path() + "/1-2.ring";
  EXPECT_EQ(Segment::Map(file.c_str()).error().code(), ErrorCode::kNotFound);
  std::ofstream(file) << "short";
  EXPECT_EQ(Segment::Map(file.c_str()).error().code(), ErrorCode::kCorrupt);
  std::filesystem::remove(file);
  ASSERT_EQ(::mkfifo(file.c_str(), 0600), 0);
  EXPECT_FALSE(Segment::Map(file.c_str()).has_value()) << "and it did not wait for a writer";
  std::filesystem::remove(file);
  ASSERT_TRUE(Segment::Create(directory.path().c_str(), kSmall).has_value());
  std::filesystem::create_symlink(directory.Rings().at(0), file + "x.ring");
  EXPECT_FALSE(Segment::Map((file + "x.ring").c_str()).has_value()) << "links could lead anywhere";
}

TEST(Segment, AHeaderOfAnotherProcessThanTheNameIsRefused) {
  ScratchDirectory directory;
  ASSERT_TRUE(Segment::Create(directory.path().c_str(), kSmall).has_value());
  const std::string renamed = directory.path() + "/1-2.ring";
  std::filesystem::rename(directory.Rings().at(0), renamed);
  EXPECT_EQ(Segment::Map(renamed.c_str()).error().code(), ErrorCode::kCorrupt);
}

// Every u32 of the header's constant part set to values it must not have.
TEST(Segment, EveryFieldOfTheHeaderIsChecked) {
  ScratchDirectory directory;
  ASSERT_TRUE(Segment::Create(directory.path().c_str(), kSmall).has_value());
  const std::string path = directory.Rings().at(0);
  const Fd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  for (off_t at = 0; at < static_cast<off_t>(offsetof(RingHeader, created_ns)); at += 4) {
    if (at == offsetof(RingHeader, reserved0)) continue;
    uint32_t original = 0;
    ASSERT_EQ(::pread(file.get(), &original, sizeof(original), at), 4);
    for (const uint32_t value : {original + 1, original ^ 0x8000'0000U, ~original}) {
      ASSERT_EQ(::pwrite(file.get(), &value, sizeof(value), at), 4);
      EXPECT_FALSE(Segment::Map(path.c_str()).has_value()) << "offset " << at << " value " << value;
    }
    ASSERT_EQ(::pwrite(file.get(), &original, sizeof(original), at), 4);
    ASSERT_TRUE(Segment::Map(path.c_str()).has_value());
  }
}

TEST(Segment, AFileOfAnotherSizeIsRefused) {
  ScratchDirectory directory;
  ASSERT_TRUE(Segment::Create(directory.path().c_str(), kSmall).has_value());
  const std::string path = directory.Rings().at(0);
  const auto size = std::filesystem::file_size(path);
  for (const auto other : {size - 1, size + 1, sizeof(RingHeader), size_t{0}}) {
    std::filesystem::resize_file(path, other);
    EXPECT_EQ(Segment::Map(path.c_str()).error().code(), ErrorCode::kCorrupt) << other;
  }
}

TEST(ProcessIdentity, KnowsTheLivingFromTheDeadAndTheirSuccessors) {
  EXPECT_TRUE(IsAlive(SelfIdentity()));
  ProcessIdentity other = SelfIdentity();
  ++other.start_time_ticks;
  EXPECT_FALSE(IsAlive(other)) << "another process had this pid";

  int pipe_fds[2];
  ASSERT_EQ(::pipe(pipe_fds), 0);
  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    const ProcessIdentity self = SelfIdentity();
    const bool sent = ::write(pipe_fds[1], &self, sizeof(self)) == sizeof(self);
    ::_exit(sent ? 0 : 1);
  }
  ProcessIdentity identity;
  ASSERT_EQ(::read(pipe_fds[0], &identity, sizeof(identity)), static_cast<ssize_t>(sizeof(identity)));
  EXPECT_EQ(identity.pid, static_cast<uint32_t>(child));
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_FALSE(IsAlive(identity)) << "a zombie will write nothing more";
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_FALSE(IsAlive(identity));
  ::close(pipe_fds[0]);
  ::close(pipe_fds[1]);
}

TEST(ProcessIdentity, AProcessWhoseFirstThreadEndedIsAlive) {
  const pid_t child = ::fork();
  ASSERT_NE(child, -1);
  if (child == 0) {
    std::thread([] { ::pause(); }).detach();
    ::syscall(SYS_exit, 0);  // This thread alone, and without unwinding into the test framework.
  }
  const std::string path = "/proc/" + std::to_string(child) + "/stat";
  std::string text;
  while (text.find(") Z ") == std::string::npos) std::getline(std::ifstream(path), text);
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string field;
  for (int number = 3; number <= 22; ++number) fields >> field;
  EXPECT_TRUE(IsAlive({.pid = static_cast<uint32_t>(child), .start_time_ticks = std::stoull(field)}));
  ASSERT_EQ(::kill(child, SIGKILL), 0);
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
}

}  // namespace
}  // namespace smeltr::ring
