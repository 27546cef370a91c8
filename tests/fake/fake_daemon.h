// A smeltrd made of a function: what it answers to each request, in the framing of ipc/connection.h.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "ipc/connection.h"
#include "ipc/message.h"

namespace smeltr::fake {

class FakeDaemon {
 public:
  // Messages to send, in order; the connection is closed after the last one when `close` is set.
  struct Answer {
    std::vector<std::string> messages;
    bool close = false;
  };
  using Handler = std::function<Answer(const ipc::Request&)>;

  // Answers Hello itself, as the daemon of `home`; everything else is the handler's. Serves one connection
  // after the other.
  FakeDaemon(std::filesystem::path socket, std::string home, Handler handler)
      : socket_(std::move(socket)), home_(std::move(home)), handler_(std::move(handler)) {
    std::filesystem::remove(socket_);
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, socket_.c_str(), socket_.native().size());
    listener_ = Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    listening_ = ::bind(listener_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
                 ::listen(listener_.get(), 8) == 0;
    thread_ = std::thread([this] { Serve(); });
  }
  ~FakeDaemon() {
    ended_ = true;
    ::shutdown(listener_.get(), SHUT_RDWR);
    {
      const std::scoped_lock lock(mutex_);
      if (connection_.valid()) ::shutdown(connection_.get(), SHUT_RDWR);
    }
    thread_.join();
  }
  FakeDaemon(const FakeDaemon&) = delete;
  FakeDaemon& operator=(const FakeDaemon&) = delete;

  bool listening() const { return listening_; }
  int connection_count() const { return connection_count_; }

  // What was asked so far, Hello left out.
  std::vector<ipc::Request> requests() const {
    const std::scoped_lock lock(mutex_);
    return requests_;
  }

  static Answer Say(const ipc::Reply& reply) { return {{ipc::Encode(reply)}}; }

 private:
  void Serve() {
    while (!ended_) {
      Fd accepted(::accept(listener_.get(), nullptr, nullptr));
      if (!accepted.valid()) return;
      ++connection_count_;
      const int fd = accepted.get();
      {
        const std::scoped_lock lock(mutex_);
        connection_ = std::move(accepted);
      }
      while (Step(fd)) continue;
      const std::scoped_lock lock(mutex_);
      connection_.Reset();
    }
  }

  bool Step(int fd) {
    ipc::LengthPrefix prefix{};
    if (!ReadWhole(fd, prefix.data(), prefix.size())) return false;
    const auto length = ipc::DecodeLength(prefix);
    std::string body(length.value_or(0), '\0');
    if (!length.has_value() || !ReadWhole(fd, body.data(), body.size())) return false;
    const auto request = ipc::DecodeRequest(body);
    if (!request.has_value()) return false;
    Answer answer;
    if (std::holds_alternative<ipc::Hello>(*request)) {
      ipc::Welcome welcome;
      welcome.protocol = ipc::kProtocolVersion;
      welcome.daemon_version = "fake";
      welcome.daemon_pid = static_cast<uint32_t>(::getpid());
      welcome.home = home_;
      answer = Say(welcome);
    } else {
      {
        const std::scoped_lock lock(mutex_);
        requests_.push_back(*request);
      }
      answer = handler_(*request);
    }
    for (const std::string& message : answer.messages) {
      const ipc::LengthPrefix size = ipc::EncodeLength(message.size());
      std::string bytes(size.begin(), size.end());
      bytes += message;
      if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) < 0) return false;
    }
    return !answer.close;
  }

  static bool ReadWhole(int fd, void* out, size_t size) {
    return size == 0 || ::recv(fd, out, size, MSG_WAITALL) == static_cast<ssize_t>(size);
  }

  std::filesystem::path socket_;
  std::string home_;
  Handler handler_;
  Fd listener_;
  bool listening_ = false;
  std::atomic<bool> ended_ = false;
  std::atomic<int> connection_count_ = 0;
  mutable std::mutex mutex_;
  Fd connection_;
  std::vector<ipc::Request> requests_;
  std::thread thread_;
};

}  // namespace smeltr::fake
