#include "ipc/connection.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>

#include <cstring>
#include <filesystem>

namespace smeltr::ipc {
namespace {

// A listening socket whose other end the test plays by hand.
class ConnectionTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ = std::filesystem::temp_directory_path() / ("smeltr-ipc-" + std::to_string(::getpid()));
    std::filesystem::create_directories(directory_);
    path_ = directory_ / "s";
    listener_.Reset(::socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path_.c_str(), sizeof(address.sun_path) - 1);
    ASSERT_EQ(::bind(listener_.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
    ASSERT_EQ(::listen(listener_.get(), 4), 0);
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  Fd Accept() { return Fd(::accept(listener_.get(), nullptr, nullptr)); }

  std::filesystem::path directory_, path_;
  Fd listener_;
};

TEST_F(ConnectionTest, MessagesArriveWhole) {
  auto connection = Connection::Open(path_);
  ASSERT_TRUE(connection.has_value()) << connection.error().text();
  const Fd peer = Accept();
  ASSERT_TRUE(connection->Send("{}", 1000).has_value());
  char bytes[6];
  ASSERT_EQ(::recv(peer.get(), bytes, sizeof(bytes), MSG_WAITALL), 6);
  EXPECT_EQ(std::memcmp(bytes, "\2\0\0\0{}", 6), 0);
  // In pieces, as a stream may deliver it.
  ASSERT_EQ(::send(peer.get(), "\3\0\0\0a", 5, 0), 5);
  ASSERT_EQ(::send(peer.get(), "bc", 2, 0), 2);
  EXPECT_EQ(connection->Receive(1000).value(), "abc");
  EXPECT_EQ(connection->peer().pid, ::getpid());
}

TEST_F(ConnectionTest, RefusesLengthsOutsideTheLimits) {
  auto connection = Connection::Open(path_);
  const Fd peer = Accept();
  ASSERT_EQ(::send(peer.get(), "\xFF\xFF\xFF\x7F", 4, 0), 4);
  EXPECT_EQ(connection->Receive(1000).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(connection->Send(std::string(kMaxMessageBytes + 1, 'x'), 1000).error().code(),
            ErrorCode::kInvalidArgument);
  EXPECT_FALSE(DecodeLength(EncodeLength(0)).has_value());
  EXPECT_EQ(DecodeLength(EncodeLength(kMaxMessageBytes)), kMaxMessageBytes);
}

TEST_F(ConnectionTest, HangUpAndSilenceAreTold) {
  auto connection = Connection::Open(path_);
  {
    const Fd peer = Accept();
    EXPECT_EQ(connection->Receive(10).error().text(), "smeltrd does not answer");
  }
  const auto lost = connection->Receive(1000);
  ASSERT_FALSE(lost.has_value());
  EXPECT_NE(lost.error().text().find("lost"), std::string_view::npos);
}

int g_peer = -1;

// Whoever is stopped, or does not get the processor, for longer than its limit has been answered in time.
TEST_F(ConnectionTest, WhatCameWhileWeWereStoppedCounts) {
  auto connection = Connection::Open(path_);
  const Fd peer = Accept();
  g_peer = peer.get();
  struct sigaction action{};
  action.sa_handler = [](int) {
    if (::send(g_peer, "\3\0\0\0abc", 7, 0) != 7) return;
    const timespec longer{.tv_sec = 0, .tv_nsec = 700'000'000};
    ::nanosleep(&longer, nullptr);
  };
  struct sigaction before{};
  ASSERT_EQ(::sigaction(SIGALRM, &action, &before), 0);
  const itimerval soon{.it_interval = {}, .it_value = {.tv_sec = 0, .tv_usec = 50'000}};
  ASSERT_EQ(::setitimer(ITIMER_REAL, &soon, nullptr), 0);
  const auto received = connection->Receive(500);
  ::sigaction(SIGALRM, &before, nullptr);
  ASSERT_TRUE(received.has_value()) << received.error().text();
  EXPECT_EQ(*received, "abc");
}

TEST_F(ConnectionTest, NobodyThere) {
  listener_.Reset();
  EXPECT_EQ(Connection::Open(path_).error().code(), ErrorCode::kUnavailable);
  EXPECT_EQ(Connection::Open(directory_ / "none").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Connection::Open(directory_ / std::string(200, 'x')).error().code(), ErrorCode::kInvalidArgument);
}

}  // namespace
}  // namespace smeltr::ipc
