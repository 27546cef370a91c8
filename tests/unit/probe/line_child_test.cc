#include "probe/line_child.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace smeltr::probe {
namespace {

using namespace std::chrono_literals;

// Waits, for a minute at most.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 6000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

// Nor may it be left unburied.
bool Runs(const std::string& pid) { return std::filesystem::exists("/proc/" + pid); }

TEST(LineChild, LinesArriveWithoutWaiting) {
  auto child = LineChild::Start({"/bin/sh", "-c", "echo one; echo two; printf half; sleep 1000"});
  ASSERT_TRUE(child.has_value());
  std::vector<std::string> lines;
  ASSERT_TRUE(Eventually([&] { return child->Read(1, lines) && lines.size() == 2; }));
  EXPECT_EQ(lines, (std::vector<std::string>{"one", "two"}));
  EXPECT_TRUE(child->Read(10, lines));
  EXPECT_EQ(lines.size(), 2U);
}

TEST(LineChild, TheEndIsTold) {
  auto child = LineChild::Start({"/bin/echo", "last"});
  ASSERT_TRUE(child.has_value());
  std::vector<std::string> lines;
  EXPECT_TRUE(Eventually([&] { return !child->Read(10, lines); }));
  EXPECT_EQ(lines, (std::vector<std::string>{"last"}));
}

TEST(LineChild, EndlessLinesAreDropped) {
  auto child = LineChild::Start(
      {"/bin/sh", "-c", "head -c 3000000 /dev/zero | tr '\\0' x; echo; echo after; sleep 1000"});
  ASSERT_TRUE(child.has_value());
  std::vector<std::string> lines;
  ASSERT_TRUE(Eventually([&] { return child->Read(10, lines) && !lines.empty(); }));
  EXPECT_EQ(lines, (std::vector<std::string>{"after"}));
}

TEST(LineChild, ItEndsWithItsOwner) {
  std::optional<LineChild> child;
  {
    auto started = LineChild::Start({"/bin/sh", "-c", "echo $$; exec sleep 1000"});
    ASSERT_TRUE(started.has_value());
    child.emplace(std::move(*started));
  }
  std::vector<std::string> lines;
  ASSERT_TRUE(Eventually([&] { return child->Read(1, lines) && !lines.empty(); }));
  EXPECT_TRUE(Runs(lines[0]));
  child.reset();
  EXPECT_TRUE(Eventually([&] { return !Runs(lines[0]); }));
}

// Daemons are killed, too: 251 helpers were once left behind.
TEST(LineChild, ItEndsWithAnOwnerThatIsKilled) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t owner = ::fork();
  if (owner == 0) {
    auto child = LineChild::Start({"/bin/sh", "-c", "echo $$; exec sleep 1000"});
    std::vector<std::string> lines;
    while (child.has_value() && child->Read(1, lines) && lines.empty()) ::usleep(1000);
    if (!lines.empty()) [[maybe_unused]]
      const ssize_t told = ::write(ends[1], lines[0].data(), lines[0].size());
    ::pause();
  }
  ::close(ends[1]);
  char text[32] = {};
  ASSERT_GT(::read(ends[0], text, sizeof(text) - 1), 0);
  ::close(ends[0]);
  EXPECT_TRUE(Runs(text));
  ::kill(owner, SIGKILL);
  ::waitpid(owner, nullptr, 0);
  EXPECT_TRUE(Eventually([&] { return !Runs(text); }));
}

TEST(LineChild, AProgramThatIsNotThereEndsAtOnce) {
  auto child = LineChild::Start({"/no/such/program"});
  ASSERT_TRUE(child.has_value());
  std::vector<std::string> lines;
  EXPECT_TRUE(Eventually([&] { return !child->Read(10, lines); }));
  EXPECT_TRUE(lines.empty());
}

}  // namespace
}  // namespace smeltr::probe
