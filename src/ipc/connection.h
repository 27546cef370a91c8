// Framing on the daemon's socket, and a blocking connection for clients.
//
// A message travels as u32 little-endian length (1 to kMaxMessageBytes), then that many bytes of JSON.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr::ipc {

inline constexpr uint32_t kMaxMessageBytes = 1 << 20;

using LengthPrefix = std::array<unsigned char, 4>;
LengthPrefix EncodeLength(size_t length);
// Nothing for a length outside the limits: the stream cannot be trusted any further.
std::optional<uint32_t> DecodeLength(const LengthPrefix& prefix);

struct PeerCredentials {
  uid_t uid = 0;
  pid_t pid = 0;
};
// Who is at the other end, as the system knows it.
Result<PeerCredentials> ReadPeerCredentials(int socket_fd);

// Blocking, one request at a time, each call bounded by its own time limit. Not thread-safe.
class Connection {
 public:
  // kNotFound and kUnavailable: nobody listens there. kPermission: somebody else's process does.
  static Result<Connection> Open(const std::filesystem::path& socket);

  Result<void> Send(std::string_view message, int limit_ms);
  Result<std::string> Receive(int limit_ms);
  const PeerCredentials& peer() const { return peer_; }
  int fd() const { return fd_.get(); }

 private:
  Connection(Fd fd, PeerCredentials peer) : fd_(std::move(fd)), peer_(peer) {}
  Result<void> ReceiveInto(char* out, size_t size, uint64_t deadline_ns);

  Fd fd_;
  PeerCredentials peer_;
};

}  // namespace smeltr::ipc
