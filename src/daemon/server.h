// The socket: connections, framing, one reply a request, in order; then, for who subscribed, what the bus
// has. Decides nothing: desk.h does.
// Single-threaded: everything runs on the io_context it is given.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>

#include "base/result.h"

namespace asio {
class io_context;
}

namespace smeltr::daemon {

class Desk;
struct ServerState;

class Server {
 public:
  // `desk` outlives it.
  Server(asio::io_context& io, Desk& desk);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Binds and accepts. A socket file that nobody answers at is replaced; kAlreadyExists when somebody does.
  Result<void> Listen(const std::filesystem::path& socket);
  // Whether the socket file is the one that Listen() made: without it the daemon is there for nobody. Then
  // Listen() again; connections go on.
  bool IsReachable() const;
  // Stops accepting and removes the socket file. Connections stay until CloseConnections().
  void StopAccepting();
  void CloseConnections();
  size_t connection_count() const;

 private:
  std::shared_ptr<ServerState> state_;
};

}  // namespace smeltr::daemon
