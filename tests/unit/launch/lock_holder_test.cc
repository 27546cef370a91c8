#include "launch/lock_holder.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "fake/scratch.h"
#include "util/file.h"
#include "util/process.h"

namespace smeltr::launch {
namespace {

using LockHolderTest = fake::ScratchTest;

TEST_F(LockHolderTest, IsFoundWhileItHoldsTheLock) {
  const auto file = scratch() / "lock";
  EXPECT_FALSE(FindLockHolder(file).has_value());
  Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  const std::string text = fmt::format("{}\n", ::getpid());
  ASSERT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  EXPECT_FALSE(FindLockHolder(file).has_value()) << "a file left behind";
  ASSERT_EQ(::flock(fd.get(), LOCK_EX | LOCK_NB), 0);
  const auto holder = FindLockHolder(file);
  ASSERT_TRUE(holder.has_value());
  EXPECT_EQ(holder->pid, ::getpid());
  EXPECT_EQ(holder->start_time_ticks, ReadProcessFacts(::getpid())->start_time_ticks);
  EXPECT_TRUE(holder->works());
  EXPECT_FALSE(holder->stopped());
  fd.Reset();
  EXPECT_FALSE(FindLockHolder(file).has_value());
  ASSERT_TRUE(WriteFileAtomically(file, "-1\n", 0600, FileSync::kNone).has_value());
  EXPECT_FALSE(FindLockHolder(file).has_value());
}

TEST(LockList, IsReadByItsWords) {
  constexpr std::string_view kText =
      "1: POSIX  ADVISORY  WRITE 10 08:01:77 0 EOF\n"
      "2: FLOCK  ADVISORY  READ  10 08:01:77 0 EOF\n"
      "3: FLOCK  ADVISORY  WRITE 11 08:01:77 0 EOF\n"
      "3: -> FLOCK  ADVISORY  WRITE 12 08:01:77 0 EOF\n"
      "\n 4: FLOCK\n5: FLOCK  ADVISORY  WRITE 13 08:01:78 0 EOF";
  EXPECT_TRUE(HoldsLock(kText, 11, 77));
  EXPECT_TRUE(HoldsLock(kText, 13, 78));
  EXPECT_FALSE(HoldsLock(kText, 10, 77));
  EXPECT_FALSE(HoldsLock(kText, 12, 77)) << "it waits";
  EXPECT_FALSE(HoldsLock(kText, 11, 78));
  EXPECT_FALSE(HoldsLock("", 11, 77));
}

}  // namespace
}  // namespace smeltr::launch
