#include "launch/keeper.h"

#include <poll.h>

#include <future>
#include <memory>

#include "fake/fake_daemon.h"
#include "fake/scratch.h"

namespace smeltr::launch {
namespace {

using fake::FakeDaemon;

class KeeperTest : public fake::ScratchTest {
 protected:
  KeeperTest() {
    SetEnv("SMELTR_HOME", scratch().native());
    SetEnv("SMELTR_SOCKET", (scratch() / "s").native());
    SetEnv("XDG_CONFIG_HOME", (scratch() / "config").native());
    paths_ = ResolvePaths().value();
  }
  std::unique_ptr<FakeDaemon> StartDaemon(const FakeDaemon::Handler& handler) {
    auto daemon = std::make_unique<FakeDaemon>(paths_.socket, paths_.home.native(), handler);
    EXPECT_TRUE(daemon->listening());
    return daemon;
  }
  // A program of this name does not exist: none can be started.
  Keeper Keep() const {
    return {paths_, scratch() / "no-smeltrd", "id", ipc::Client::Connect(paths_.socket, "record").value()};
  }
  static FakeDaemon::Answer Accept(const ipc::Request& request) {
    ipc::Finished finished;
    finished.event_count = 7;
    if (std::holds_alternative<ipc::Finish>(request)) return FakeDaemon::Say(finished);
    return FakeDaemon::Say(ipc::Ack{});
  }
  static void WaitReadable(int fd) {
    pollfd entry{fd, POLLIN, 0};
    ASSERT_EQ(::poll(&entry, 1, 30'000), 1);
  }
  // Attends when it asks to, until `done`.
  template <typename F>
  static void AttendUntil(Keeper& keeper, F&& done) {
    for (int i = 0; i < 1000 && !done(); ++i) {
      pollfd entry{keeper.fd(), POLLIN, 0};
      ::poll(&entry, 1, keeper.timeout_ms() < 0 ? 100 : keeper.timeout_ms());
      keeper.Attend();
    }
    EXPECT_TRUE(done());
  }

  Paths paths_;
};

TEST_F(KeeperTest, WantsNothingWhileTheDaemonLives) {
  const auto daemon = StartDaemon(Accept);
  const Keeper keeper = Keep();
  EXPECT_GE(keeper.fd(), 0);
  EXPECT_EQ(keeper.timeout_ms(), -1);
}

TEST_F(KeeperTest, ResumesWithTheNextDaemon) {
  auto daemon = StartDaemon(Accept);
  Keeper keeper = Keep();
  daemon.reset();
  WaitReadable(keeper.fd());
  keeper.Attend();
  EXPECT_EQ(keeper.fd(), -1);
  EXPECT_GE(keeper.timeout_ms(), 0);
  daemon = StartDaemon(Accept);
  AttendUntil(keeper, [&] { return keeper.fd() >= 0; });
  const auto requests = daemon->requests();
  ASSERT_EQ(requests.size(), 1U);
  EXPECT_EQ(std::get<ipc::Resume>(requests[0]).session_id, "id");
  EXPECT_EQ(keeper.Finish({}).value().event_count, 7U);
}

TEST_F(KeeperTest, GivesUpWhereTheSessionIsUnknown) {
  auto daemon = StartDaemon(Accept);
  Keeper keeper = Keep();
  daemon.reset();
  daemon = StartDaemon([](const ipc::Request&) {
    return FakeDaemon::Say(ipc::Refusal{ErrorCode::kNotFound, "no such session"});
  });
  AttendUntil(keeper, [&] { return keeper.fd() < 0 && keeper.timeout_ms() < 0; });
  EXPECT_EQ(daemon->requests().size(), 1U);
  const auto finished = keeper.Finish({});
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().text(), "no such session");
}

TEST_F(KeeperTest, StaysWithADaemonThatCannotResume) {
  auto daemon = StartDaemon(Accept);
  Keeper keeper = Keep();
  daemon.reset();
  daemon = StartDaemon(
      [](const ipc::Request&) { return FakeDaemon::Say(ipc::Refusal{ErrorCode::kUnsupported, "too old"}); });
  AttendUntil(keeper, [&] { return keeper.fd() >= 0; });
  EXPECT_EQ(keeper.timeout_ms(), -1);
}

// The answer may come long after the question, but from a daemon that can be talked to.
TEST_F(KeeperTest, WaitsForNoMuteDaemon) {
  std::promise<void> hold;
  const auto daemon = StartDaemon([&](const ipc::Request&) {
    hold.get_future().wait();
    return FakeDaemon::Answer{{}, true};
  });
  Keeper keeper = Keep();
  const auto finished = keeper.Finish({});
  hold.set_value();
  ASSERT_FALSE(finished.has_value());
  EXPECT_EQ(finished.error().code(), ErrorCode::kIo);
  EXPECT_EQ(daemon->requests().size(), 1U);
}

TEST_F(KeeperTest, BacksOff) {
  auto daemon = StartDaemon(Accept);
  Keeper keeper = Keep();
  daemon.reset();
  std::filesystem::remove(paths_.socket);
  WaitReadable(keeper.fd());
  keeper.Attend();
  const int first_ms = keeper.timeout_ms();
  EXPECT_GT(first_ms, 0);
  EXPECT_LE(first_ms, 251);
  // Asked too early it does nothing.
  keeper.Attend();
  EXPECT_LE(keeper.timeout_ms(), 251);
}

}  // namespace
}  // namespace smeltr::launch
