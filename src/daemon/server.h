// The socket: connections, framing, one reply a request, in order. Decides nothing about recordings.
// Single-threaded: everything runs on the io_context it is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>

#include "base/result.h"
#include "ipc/message.h"

namespace asio {
class io_context;
}

namespace smeltr::daemon {

class Recordings;
struct ServerState;

class Server {
 public:
  // `wake` is called after each request that may have made work for Recordings::Poll.
  Server(asio::io_context& io, Recordings& recordings, ipc::Welcome welcome, std::function<void()> wake);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds and accepts. A socket file that nobody answers at is replaced; kAlreadyExists when somebody does.
  Result<void> Listen(const std::filesystem::path& socket);
  // Stops accepting and removes the socket file. Connections stay until CloseConnections().
  void StopAccepting();
  void CloseConnections();
  size_t connection_count() const;

 private:
  std::shared_ptr<ServerState> state_;
};

}  // namespace smeltr::daemon
