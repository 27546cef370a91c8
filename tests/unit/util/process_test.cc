#include "util/process.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace smeltr {
namespace {

TEST(Process, FactsOfOneself) {
  const ProcessFacts facts = ReadProcessFacts(::getpid()).value();
  EXPECT_EQ(facts.parent_pid, static_cast<uint32_t>(::getppid()));
  EXPECT_GT(facts.start_time_ticks, 0U);
  EXPECT_EQ(facts.state, 'R');
  EXPECT_FALSE(ProcessExecutable(::getpid()).empty());
}

TEST(Process, NameMayHoldAnything) {
  const uint64_t before = ReadProcessFacts(::getpid())->start_time_ticks;
  char previous[16];
  ASSERT_EQ(::prctl(PR_GET_NAME, previous), 0);
  ASSERT_EQ(::prctl(PR_SET_NAME, ") Z 1 2 (x) "), 0);
  const auto facts = ReadProcessFacts(::getpid());
  ASSERT_EQ(::prctl(PR_SET_NAME, previous), 0);
  ASSERT_TRUE(facts.has_value());
  EXPECT_EQ(facts->start_time_ticks, before);
  EXPECT_EQ(facts->state, 'R');
}

TEST(Process, DeadOnesAreTold) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  siginfo_t info{};
  ASSERT_EQ(::waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT), 0);
  EXPECT_EQ(ReadProcessFacts(child)->state, 'Z');
  ASSERT_EQ(::waitpid(child, nullptr, 0), child);
  EXPECT_EQ(ReadProcessFacts(child).error().code(), ErrorCode::kNotFound);
}

TEST(Process, BootHasAnId) { EXPECT_EQ(BootId().size(), 36U); }

}  // namespace
}  // namespace smeltr
