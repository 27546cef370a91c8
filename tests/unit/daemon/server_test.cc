#include "daemon/server.h"

#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <atomic>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "daemon/ambient.h"
#include "daemon/desk.h"
#include "daemon/lifecycle.h"
#include "daemon/recordings.h"
#include "fake/scratch.h"
#include "ipc/client.h"
#include "session/metadata.h"
#include "unit/daemon/log_context.h"

namespace smeltr::daemon {
namespace {

// A server on a thread of its own; the test is its client.
class ServerTest : public fake::ScratchTest {
 protected:
  ServerTest() {
    SetEnv("SMELTR_HOME", scratch().native());
    SetEnv("SMELTR_SOCKET", std::nullopt);
    SetLogLevel(LogLevel::kNothing);
    paths_ = ResolvePaths().value();
    around_.emplace(paths_.run / "reserve");
    recordings_.emplace(paths_, paths_.run / "rings", around_->context);
    ambient_.emplace(paths_.sessions, around_->context);
    ambient_->Poll(MonotonicNowNs());
    ipc::Welcome welcome;
    welcome.protocol = ipc::kProtocolVersion;
    welcome.home = paths_.home;
    desk_.emplace(
        DeskParts{*recordings_, *ambient_, around_->router, nullptr}, welcome,
        [this] {
          recordings_->Poll(MonotonicNowNs());
          around_->bus.Flush(MonotonicNowNs());
        },
        [this] { stop_asked_ = true; });
    server_.emplace(io_, *desk_);
    socket_ = scratch() / "s";
  }
  ~ServerTest() override {
    io_.stop();
    if (thread_.joinable()) thread_.join();
    server_.reset();
    SetLogLevel(LogLevel::kInfo);
  }
  void Start() {
    const auto listening = server_->Listen(socket_);
    ASSERT_TRUE(listening.has_value()) << listening.error().text();
    thread_ = std::thread([this] { io_.run(); });
  }
  // Sends a text and returns the answer, decoded.
  static ipc::Reply Ask(ipc::Connection& connection, std::string_view text) {
    EXPECT_TRUE(connection.Send(text, 5000).has_value());
    const auto answer = connection.Receive(5000);
    EXPECT_TRUE(answer.has_value()) << answer.error().text();
    return ipc::DecodeReply(answer.value_or("")).value();
  }

  asio::io_context io_;
  Paths paths_;
  std::optional<TestLogContext> around_;
  std::optional<Recordings> recordings_;
  std::optional<Ambient> ambient_;
  std::optional<Desk> desk_;
  std::atomic<bool> stop_asked_ = false;
  std::optional<Server> server_;
  std::filesystem::path socket_;
  std::thread thread_;
};

TEST_F(ServerTest, BadRequestsAreAnsweredAndTheConnectionGoesOn) {
  Start();
  auto connection = std::move(ipc::Connection::Open(socket_)).value();
  const auto refusal = [&](std::string_view text) { return std::get<ipc::Refusal>(Ask(connection, text)); };
  EXPECT_EQ(refusal(R"({"op":"Reserve","token":"t","argv":["x"]})").text, "say Hello first");
  EXPECT_EQ(refusal("not json").code, ErrorCode::kInvalidArgument);
  EXPECT_EQ(refusal(R"({"op":"Frobnicate"})").code, ErrorCode::kUnsupported);
  EXPECT_EQ(std::get<ipc::Welcome>(Ask(connection, R"({"op":"Hello"})")).home, paths_.home.native());
  EXPECT_EQ(refusal(R"({"op":"Frobnicate"})").code, ErrorCode::kUnsupported);
  EXPECT_EQ(refusal(R"({"op":"Attach","pid":"x"})").code, ErrorCode::kInvalidArgument);
  EXPECT_TRUE(
      std::holds_alternative<ipc::Reserved>(Ask(connection, R"({"op":"Reserve","token":"t","argv":["x"]})")));
}

TEST_F(ServerTest, OtherProtocolVersionsAreTold) {
  Start();
  auto connection = std::move(ipc::Connection::Open(socket_)).value();
  const auto newer =
      std::get<ipc::Refusal>(Ask(connection, R"({"op":"Hello","protocol_min":2,"protocol_max":3})"));
  EXPECT_EQ(newer.code, ErrorCode::kUnsupported);
  EXPECT_NE(newer.text.find("older than this smeltr"), std::string::npos);
  const auto older =
      std::get<ipc::Refusal>(Ask(connection, R"({"op":"Hello","protocol_min":0,"protocol_max":0})"));
  EXPECT_NE(older.text.find("newer than this smeltr"), std::string::npos);
}

TEST_F(ServerTest, BrokenFramingEndsOnlyThatConnection) {
  Start();
  auto good = std::move(ipc::Client::Connect(socket_, "test")).value();
  auto bad = std::move(ipc::Connection::Open(socket_)).value();
  ASSERT_EQ(::send(bad.fd(), "\0\0\0\0", 4, MSG_NOSIGNAL), 4);
  const auto answer = bad.Receive(5000);
  ASSERT_FALSE(answer.has_value());
  EXPECT_NE(answer.error().text().find("lost"), std::string_view::npos) << answer.error().text();
  ipc::Reserve reserve;
  reserve.token = "t";
  reserve.argv = {"x"};
  EXPECT_TRUE(good.Call(reserve).has_value());
}

TEST_F(ServerTest, HangingUpEndsWhatWasOnlyReserved) {
  Start();
  std::filesystem::path directory;
  {
    auto client = std::move(ipc::Client::Connect(socket_, "test")).value();
    ipc::Reserve reserve;
    reserve.token = "t";
    reserve.argv = {"x"};
    directory = client.Call(reserve)->session_directory;
    EXPECT_TRUE(std::filesystem::exists(directory));
  }
  // The next connection's answer comes after the hang-up has been noticed, or some later one's does.
  for (int i = 0; i < 1000 && std::filesystem::exists(directory); ++i) {
    ASSERT_TRUE(ipc::Client::Connect(socket_, "test").has_value());
  }
  EXPECT_FALSE(std::filesystem::exists(directory));
}

TEST_F(ServerTest, DeadSocketIsReplacedLivingOneIsNot) {
  {
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::copy_n(socket_.c_str(), socket_.native().size() + 1, address.sun_path);
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  }
  Start();
  struct stat status{};
  ASSERT_EQ(::stat(socket_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0600U);
  asio::io_context other_io;
  Server other(other_io, *desk_);
  EXPECT_EQ(other.Listen(socket_).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_TRUE(ipc::Client::Connect(socket_, "test").has_value()) << "the living one's address was taken";
}

TEST_F(ServerTest, OtherFilesAreNotReplaced) {
  std::ofstream(socket_) << "precious";
  EXPECT_EQ(server_->Listen(socket_).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(std::filesystem::file_size(socket_), 8U);
  EXPECT_EQ(server_->Listen(scratch() / std::string(120, 'x')).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ServerTest, LockIsHeldOnceAndFreedWithItsHolder) {
  const auto file = scratch() / "lock";
  {
    const auto first = HomeLock::Acquire(file);
    ASSERT_TRUE(first.has_value());
    const auto second = HomeLock::Acquire(file);
    ASSERT_FALSE(second.has_value());
    EXPECT_EQ(second.error().code(), ErrorCode::kAlreadyExists);
    EXPECT_NE(second.error().text().find("pid " + std::to_string(::getpid()) + " holds"),
              std::string_view::npos);
  }
  EXPECT_TRUE(HomeLock::Acquire(file).has_value()) << "a file left behind must not lock anybody out";
}

TEST_F(ServerTest, LockOfAMovedHomeKeepsNobodyOut) {
  const auto file = scratch() / "lock";
  const auto lock = HomeLock::Acquire(file);
  ASSERT_TRUE(lock.has_value());
  EXPECT_TRUE(lock->IsInPlace());
  std::filesystem::rename(file, scratch() / "moved");
  EXPECT_FALSE(lock->IsInPlace());
  const auto next = HomeLock::Acquire(file);
  ASSERT_TRUE(next.has_value());
  EXPECT_TRUE(next->IsInPlace());
  EXPECT_FALSE(lock->IsInPlace());
}

// On this thread, a step at a time.
TEST_F(ServerTest, LostSocketFileIsMadeAnew) {
  ASSERT_TRUE(server_->Listen(socket_).has_value());
  EXPECT_TRUE(server_->IsReachable());
  std::filesystem::remove(socket_);
  EXPECT_FALSE(server_->IsReachable());
  std::ofstream(socket_) << "x";
  EXPECT_FALSE(server_->IsReachable());
  EXPECT_FALSE(server_->Listen(socket_).has_value());
  std::filesystem::remove(socket_);
  ASSERT_TRUE(server_->Listen(socket_).has_value());
  EXPECT_TRUE(server_->IsReachable());
  thread_ = std::thread([this] { io_.run(); });
  EXPECT_TRUE(ipc::Client::Connect(socket_, "test").has_value());
}

TEST_F(ServerTest, SocketOfAnotherDaemonIsNotRemoved) {
  ASSERT_TRUE(server_->Listen(socket_).has_value());
  std::filesystem::remove(socket_);
  asio::io_context other_io;
  Server other(other_io, *desk_);
  ASSERT_TRUE(other.Listen(socket_).has_value());
  server_->StopAccepting();
  EXPECT_TRUE(std::filesystem::exists(socket_));
  other.StopAccepting();
  EXPECT_FALSE(std::filesystem::exists(socket_));
}

TEST_F(ServerTest, StatusOfManyLongCommandsFitsIntoAMessage) {
  Start();
  auto client = std::move(ipc::Client::Connect(socket_, "test")).value();
  for (int i = 0; i < 18; ++i) {
    ipc::Reserve reserve;
    reserve.token = std::to_string(i);
    // Six bytes each as JSON.
    reserve.argv = {"sh", std::string(100'000, '\x01')};
    ASSERT_TRUE(client.Call(reserve).has_value());
  }
  const auto report = client.Call(ipc::Status{});
  ASSERT_TRUE(report.has_value()) << report.error().text();
  ASSERT_EQ(report->sessions.size(), 19U);
  EXPECT_TRUE(report->sessions[1].command.starts_with("sh \x01"));
  EXPECT_LT(report->sessions[1].command.size(), 1000U);
}

TEST_F(ServerTest, TextsOfAMarkAreKeptWholeOrRefused) {
  Start();
  auto client = std::move(ipc::Client::Connect(socket_, "test")).value();
  ipc::Mark mark;
  mark.label = std::string(4096, 'x');
  EXPECT_TRUE(client.Call(mark).has_value());
  mark.label += 'x';
  EXPECT_EQ(client.Call(mark).error().code(), ErrorCode::kInvalidArgument);
  mark.label = "x";
  mark.field_keys = {"k"};
  mark.field_types = {"string"};
  mark.field_values = {std::string(4097, 'x')};
  EXPECT_EQ(client.Call(mark).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(ServerTest, TooManyConnectionsAreTold) {
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  // Both ends are here.
  if (limit.rlim_max < 1200) GTEST_SKIP() << "may not open enough";
  limit.rlim_cur = limit.rlim_max;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  Start();
  std::vector<ipc::Client> clients;
  while (clients.size() < 512) {
    auto client = ipc::Client::Connect(socket_, "test");
    ASSERT_TRUE(client.has_value()) << clients.size() << ": " << client.error().text();
    clients.push_back(std::move(*client));
  }
  const auto refused = ipc::Client::Connect(socket_, "test");
  ASSERT_FALSE(refused.has_value());
  EXPECT_EQ(refused.error().text(), "smeltrd has 512 connections already");
}

// What a client claims costs nothing; only what it sends does.
size_t ResidentBytes() {
  size_t total = 0;
  size_t resident = 0;
  std::ifstream("/proc/self/statm") >> total >> resident;
  return resident * static_cast<size_t>(::sysconf(_SC_PAGESIZE));
}

TEST_F(ServerTest, ClaimedLengthsCostNoMemory) {
  constexpr int kClients = 64;
  Start();
  auto other = std::move(ipc::Connection::Open(socket_)).value();
  Ask(other, R"({"op":"Hello"})");
  std::vector<ipc::Connection> connections;
  for (int i = 0; i < kClients; ++i) {
    connections.push_back(std::move(ipc::Connection::Open(socket_)).value());
    Ask(connections.back(), R"({"op":"Hello"})");
  }
  const size_t before = ResidentBytes();
  for (ipc::Connection& connection : connections) {
    ASSERT_EQ(::send(connection.fd(), "\0\0\x10\0{", 5, MSG_NOSIGNAL), 5);
  }
  // Answers to another tell that the server has been round.
  for (int i = 0; i < 20; ++i) {
    ASSERT_TRUE(other.Send(R"({"op":"Hello"})", 60'000).has_value());
    ASSERT_TRUE(other.Receive(60'000).has_value());
  }
  EXPECT_LT(ResidentBytes(), before + (size_t{kClients} << 19));
}

TEST_F(ServerTest, LongMessagesArriveWhole) {
  Start();
  auto connection = std::move(ipc::Connection::Open(socket_)).value();
  Ask(connection, R"({"op":"Hello"})");
  const std::string argument(300'000, 'y');
  const auto reply = Ask(connection, R"({"op":"Reserve","token":"t","argv":["x",")" + argument + R"("]})");
  ASSERT_TRUE(std::holds_alternative<ipc::Reserved>(reply));
  const auto metadata = session::ReadMetadata(std::get<ipc::Reserved>(reply).session_directory);
  EXPECT_EQ(metadata->argv.at(1), argument);
}

TEST_F(ServerTest, NothingLongIsReadBeforeHello) {
  Start();
  auto connection = std::move(ipc::Connection::Open(socket_)).value();
  ASSERT_EQ(::send(connection.fd(), "\x01\x10\0\0", 4, MSG_NOSIGNAL), 4);
  const auto answer = connection.Receive(5000);
  ASSERT_FALSE(answer.has_value());
  EXPECT_NE(answer.error().text().find("lost"), std::string_view::npos) << answer.error().text();
}

}  // namespace
}  // namespace smeltr::daemon
