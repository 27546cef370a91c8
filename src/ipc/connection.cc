#include "ipc/connection.h"

#include <errno.h>
#include <fmt/format.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>

#include "base/clock.h"
#include "util/file.h"

namespace smeltr::ipc {
namespace {

uint64_t DeadlineAfter(int limit_ms) {
  return MonotonicNowNs() + static_cast<uint64_t>(std::max(limit_ms, 0)) * 1'000'000;
}

// Waits until `fd` can do `events`; false when the time is over. Looks once more then: this process may have
// been stopped for longer than that, while everything came in time.
bool WaitFor(int fd, short events, uint64_t deadline_ns) {
  while (true) {
    const uint64_t now_ns = MonotonicNowNs();
    const bool over = now_ns >= deadline_ns;
    pollfd entry{fd, events, 0};
    const int limit_ms = over ? 0 : static_cast<int>((deadline_ns - now_ns) / 1'000'000 + 1);
    if (::poll(&entry, 1, limit_ms) > 0) return true;
    if (over) return false;
  }
}

std::unexpected<Error> TimedOut() { return Fail(ErrorCode::kUnavailable, "smeltrd does not answer"); }

std::unexpected<Error> Lost(int errno_value) {
  return Fail(ErrorCode::kUnavailable,
              fmt::format("the connection to smeltrd was lost: {}",
                          errno_value == 0 ? "it hung up" : ::strerror(errno_value)));
}

}  // namespace

LengthPrefix EncodeLength(size_t length) {
  const auto value = static_cast<uint32_t>(length);
  return {static_cast<unsigned char>(value), static_cast<unsigned char>(value >> 8),
          static_cast<unsigned char>(value >> 16), static_cast<unsigned char>(value >> 24)};
}

std::optional<uint32_t> DecodeLength(const LengthPrefix& prefix) {
  const uint32_t length = static_cast<uint32_t>(prefix[0]) | static_cast<uint32_t>(prefix[1]) << 8 |
                          static_cast<uint32_t>(prefix[2]) << 16 | static_cast<uint32_t>(prefix[3]) << 24;
  if (length == 0 || length > kMaxMessageBytes) return std::nullopt;
  return length;
}

Result<PeerCredentials> ReadPeerCredentials(int socket_fd) {
  ucred credentials{};
  socklen_t size = sizeof(credentials);
  if (::getsockopt(socket_fd, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0) {
    return Fail(ErrorCode::kIo, fmt::format("cannot tell who connected: {}", ::strerror(errno)));
  }
  return PeerCredentials{credentials.uid, credentials.pid};
}

Result<Connection> Connection::Open(const std::filesystem::path& socket) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (socket.native().size() >= sizeof(address.sun_path)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("path too long ({} > {}): {}", socket.native().size(),
                            sizeof(address.sun_path) - 1, socket.native()));
  }
  memcpy(address.sun_path, socket.c_str(), socket.native().size());
  Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid()) return std::unexpected(SystemError("make a socket for", socket, errno));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    // EAGAIN: its backlog is full. It lives, but not for us now.
    return std::unexpected(SystemError("connect to", socket, errno == EAGAIN ? ETIMEDOUT : errno));
  }
  SMELTR_ASSIGN_OR_RETURN(const PeerCredentials peer, ReadPeerCredentials(fd.get()));
  if (peer.uid != ::geteuid()) {
    return Fail(ErrorCode::kPermission,
                fmt::format("{} is served by another user's process", socket.native()));
  }
  return Connection(std::move(fd), peer);
}

Result<void> Connection::Send(std::string_view message, int limit_ms) {
  if (message.empty() || message.size() > kMaxMessageBytes) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("a message of {} bytes", message.size()));
  }
  const LengthPrefix prefix = EncodeLength(message.size());
  std::string bytes(prefix.begin(), prefix.end());
  bytes += message;
  std::string_view rest = bytes;
  const uint64_t deadline_ns = DeadlineAfter(limit_ms);
  while (!rest.empty()) {
    const ssize_t sent = ::send(fd_.get(), rest.data(), rest.size(), MSG_NOSIGNAL);
    if (sent >= 0) {
      rest.remove_prefix(static_cast<size_t>(sent));
    } else if (errno == EAGAIN) {
      if (!WaitFor(fd_.get(), POLLOUT, deadline_ns)) return TimedOut();
    } else if (errno != EINTR) {
      return Lost(errno);
    }
  }
  return {};
}

Result<void> Connection::ReceiveInto(char* out, size_t size, uint64_t deadline_ns) {
  while (size > 0) {
    const ssize_t count = ::recv(fd_.get(), out, size, 0);
    if (count > 0) {
      out += count;
      size -= static_cast<size_t>(count);
    } else if (count == 0) {
      return Lost(0);
    } else if (errno == EAGAIN) {
      if (!WaitFor(fd_.get(), POLLIN, deadline_ns)) return TimedOut();
    } else if (errno != EINTR) {
      return Lost(errno);
    }
  }
  return {};
}

Result<std::string> Connection::Receive(int limit_ms) {
  const uint64_t deadline_ns = DeadlineAfter(limit_ms);
  LengthPrefix prefix{};
  SMELTR_TRY(ReceiveInto(reinterpret_cast<char*>(prefix.data()), prefix.size(), deadline_ns));
  const auto length = DecodeLength(prefix);
  if (!length.has_value()) return Fail(ErrorCode::kCorrupt, "smeltrd sent something that is no message");
  std::string message(*length, '\0');
  SMELTR_TRY(ReceiveInto(message.data(), message.size(), deadline_ns));
  return message;
}

}  // namespace smeltr::ipc
