#include "daemon/server.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <asio/io_context.hpp>
#include <asio/local/stream_protocol.hpp>
#include <asio/read.hpp>
#include <asio/steady_timer.hpp>
#include <asio/write.hpp>
#include <chrono>
#include <map>
#include <string>
#include <utility>

#include "base/clock.h"
#include "daemon/desk.h"
#include "ipc/connection.h"
#include "util/file.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

using Protocol = asio::local::stream_protocol;

constexpr size_t kMaxConnections = 512;
constexpr auto kAcceptPause = std::chrono::milliseconds(100);
// Who has not said Hello gets little memory, for a little while.
constexpr auto kHelloLimit = std::chrono::seconds(5);
constexpr uint32_t kMaxHelloBytes = 4096;
// A message's memory grows with what arrives of it, whatever length it claims.
constexpr size_t kReadStepBytes = 64 << 10;
constexpr uint64_t kLogPeriodNs = 60 * kNsPerSecond;

}  // namespace

class Session;

struct ServerState : std::enable_shared_from_this<ServerState> {
  ServerState(asio::io_context& io, Desk& answers) : acceptor(io), pause(io), desk(answers) {}

  void Accept();
  void Add(Protocol::socket socket);
  void Refuse(Protocol::socket& socket);
  void Complain(std::string_view text) { throttle.Log(LogLevel::kWarning, text, text, MonotonicNowNs()); }
  void Remove(ClientId id);

  Protocol::acceptor acceptor;
  asio::steady_timer pause;
  Desk& desk;
  std::filesystem::path socket_file;
  dev_t socket_device = 0;
  ino_t socket_inode = 0;
  LogThrottle throttle{kLogPeriodNs};  // Clients come as often as they like.
  ClientId last_id = 0;
  std::map<ClientId, std::shared_ptr<Session>> sessions;
};

// One connection. Reads a request, answers it, reads the next: a peer that does not read its replies holds
// up nobody but itself, and costs what it sent of one message of memory.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(Protocol::socket socket, std::shared_ptr<ServerState> server, ClientId id)
      : socket_(std::move(socket)),
        hello_timer_(socket_.get_executor()),
        server_(std::move(server)),
        id_(id) {}

  void Start() {
    hello_timer_.expires_after(kHelloLimit);
    hello_timer_.async_wait([weak = weak_from_this()](const std::error_code& stopped) {
      const auto self = weak.lock();
      if (stopped || self == nullptr || self->greeted_) return;
      self->server_->Complain("a client did not say Hello in time: closed");
      self->End();
    });
    ReadNext();
  }

  void ReadNext() {
    asio::async_read(socket_, asio::buffer(prefix_),
                     [self = shared_from_this()](const std::error_code& error, size_t) {
                       if (error) return self->End();
                       const auto length = ipc::DecodeLength(self->prefix_);
                       if (length.has_value() && (self->greeted_ || *length <= kMaxHelloBytes)) {
                         self->body_.clear();
                         return self->ReadBody(*length);
                       }
                       self->server_->Complain("a client sent something that is no message: closed");
                       self->End();
                     });
  }

  void Close() {
    std::error_code ignored;
    socket_.close(ignored);
    hello_timer_.cancel();
  }

 private:
  void ReadBody(size_t length) {
    const size_t have = body_.size();
    if (have == length) return Handle();
    body_.resize(std::min(length, have + kReadStepBytes));
    asio::async_read(socket_, asio::buffer(body_.data() + have, body_.size() - have),
                     [self = shared_from_this(), length](const std::error_code& error, size_t) {
                       if (error) return self->End();
                       self->ReadBody(length);
                     });
  }

  void Handle() {
    auto request = ipc::DecodeRequest(body_);
    if (body_.capacity() > kReadStepBytes) std::string().swap(body_);
    if (!request.has_value()) {
      return Send(ipc::Refusal{request.error().code(), std::string(request.error().text())});
    }
    const bool hello = std::holds_alternative<ipc::Hello>(*request);
    if (!greeted_ && !hello) return Send(ipc::Refusal{ErrorCode::kInvalidArgument, "say Hello first"});
    if (const auto* subscribe = std::get_if<ipc::Subscribe>(&*request)) return Start(*subscribe);
    // The connection may be gone by the time of the answer; a recording does not care.
    server_->desk.Handle(*request, id_, [weak = weak_from_this(), hello](const ipc::Reply& reply) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      if (hello && std::holds_alternative<ipc::Welcome>(reply)) self->Greeted();
      self->Send(reply);
    });
  }

  void Greeted() {
    greeted_ = true;
    hello_timer_.cancel();
  }

  // First what is missed from now on is kept, then the reply says from where on that is.
  void Start(const ipc::Subscribe& subscribe) {
    const auto added = server_->desk.bus().Add(
        subscribe,
        [weak = weak_from_this()] {
          if (const auto self = weak.lock()) self->SendStream();
        },
        MonotonicNowNs());
    if (!added.has_value()) {
      return Send(ipc::Refusal{added.error().code(), std::string(added.error().text())});
    }
    subscription_ = *added;
    const ipc::Heartbeat standing = server_->desk.Standing();
    ipc::Subscribed subscribed;
    for (size_t i = 0; i < standing.session_ids.size(); ++i) {
      const std::string& id = standing.session_ids[i];
      const bool wanted = subscribe.session_ids.empty() ||
                          std::ranges::find(subscribe.session_ids, id) != subscribe.session_ids.end();
      if (!wanted) continue;
      subscribed.session_ids.push_back(id);
      subscribed.next_seqs.push_back(standing.last_seqs[i] + 1);
    }
    Write(ipc::Encode(ipc::Reply(subscribed)));
    WaitForHangUp();
  }

  // A subscriber says nothing more; what it sends all the same is its end.
  void WaitForHangUp() {
    asio::async_read(socket_, asio::buffer(prefix_),
                     [self = shared_from_this()](const std::error_code&, size_t) { self->End(); });
  }

  void SendStream() {
    if (writing_) return;
    if (auto message = server_->desk.bus().Take(subscription_)) Write(*message);
  }

  void Send(const ipc::Reply& reply) {
    const std::string message = ipc::Encode(reply);
    if (message.size() <= ipc::kMaxMessageBytes) return Write(message);
    // Longer than the other end takes: to it, that would be the end of the connection.
    Write(ipc::Encode(ipc::Reply(ipc::Refusal{ErrorCode::kUnsupported, "the answer is too long"})));
  }

  // One at a time. Afterwards comes the next request, or the next of the stream.
  void Write(const std::string& message) {
    const ipc::LengthPrefix prefix = ipc::EncodeLength(message.size());
    out_.assign(prefix.begin(), prefix.end());
    out_ += message;
    writing_ = true;
    asio::async_write(socket_, asio::buffer(out_),
                      [self = shared_from_this()](const std::error_code& error, size_t) {
                        self->writing_ = false;
                        if (error) return self->End();
                        if (self->subscription_ != 0) return self->SendStream();
                        self->ReadNext();
                      });
  }

  void End() {
    if (subscription_ != 0) server_->desk.bus().Remove(subscription_);
    Close();
    server_->Remove(id_);
  }

  Protocol::socket socket_;
  asio::steady_timer hello_timer_;
  std::shared_ptr<ServerState> server_;
  ClientId id_;
  bool greeted_ = false;
  bool writing_ = false;
  SubscriberId subscription_ = 0;  // 0: none.
  ipc::LengthPrefix prefix_{};
  std::string body_;
  std::string out_;
};

void ServerState::Accept() {
  acceptor.async_accept([self = shared_from_this()](const std::error_code& error, Protocol::socket socket) {
    if (error == asio::error::operation_aborted) return;
    if (!error) {
      self->Add(std::move(socket));
      return self->Accept();
    }
    // Out of descriptors or memory: the next attempt may find some.
    self->Complain(fmt::format("cannot accept a connection: {}", error.message()));
    self->pause.expires_after(kAcceptPause);
    self->pause.async_wait([self](const std::error_code& stopped) {
      if (!stopped) self->Accept();
    });
  });
}

void ServerState::Add(Protocol::socket socket) {
  const auto peer = ipc::ReadPeerCredentials(socket.native_handle());
  if (!peer.has_value() || peer->uid != ::geteuid()) {
    Complain("refused a connection of another user");
    return;
  }
  if (sessions.size() >= kMaxConnections) {
    Complain("refused a connection: too many are open");
    return Refuse(socket);
  }
  const ClientId id = ++last_id;
  auto session = std::make_shared<Session>(std::move(socket), shared_from_this(), id);
  sessions.emplace(id, session);
  desk.SetConnectionCount(sessions.size());
  session->Start();
}

// Told, so that nobody takes it for a daemon that is about to end, and waits.
void ServerState::Refuse(Protocol::socket& socket) {
  const std::string message = ipc::Encode(ipc::Reply(ipc::Refusal{
      ErrorCode::kPermission, fmt::format("smeltrd has {} connections already", kMaxConnections)}));
  const ipc::LengthPrefix prefix = ipc::EncodeLength(message.size());
  const std::array<asio::const_buffer, 2> parts{asio::buffer(prefix), asio::buffer(message)};
  std::error_code ignored;
  socket.non_blocking(true, ignored);
  socket.send(parts, 0, ignored);
}

void ServerState::Remove(ClientId id) {
  if (sessions.erase(id) == 0) return;
  desk.SetConnectionCount(sessions.size());
  desk.ClientLost(id);
}

Server::Server(asio::io_context& io, Desk& desk) : state_(std::make_shared<ServerState>(io, desk)) {}

Server::~Server() {
  StopAccepting();
  CloseConnections();
}

Result<void> Server::Listen(const std::filesystem::path& socket) {
  if (socket.native().size() >= sizeof(sockaddr_un::sun_path)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("path too long ({} > {}): {}", socket.native().size(),
                            sizeof(sockaddr_un::sun_path) - 1, socket.native()));
  }
  if (const auto other = ipc::Connection::Open(socket); other.has_value()) {
    return Fail(ErrorCode::kAlreadyExists, fmt::format("process {} serves {} for another SMELTR_HOME",
                                                       other->peer().pid, socket.native()));
  }
  struct stat status{};
  if (::lstat(socket.c_str(), &status) == 0) {
    if (!S_ISSOCK(status.st_mode) || status.st_uid != ::geteuid()) {
      return Fail(ErrorCode::kAlreadyExists,
                  fmt::format("{} is in the way: not a socket of ours", socket.native()));
    }
    ::unlink(socket.c_str());
  }
  std::error_code error;
  state_->acceptor.close(error);
  state_->pause.cancel();
  state_->acceptor.open(Protocol(), error);
  if (!error) state_->acceptor.bind(Protocol::endpoint(socket.native()), error);
  if (!error) state_->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return std::unexpected(SystemError("listen at", socket, error.value()));
  state_->socket_file = socket;
  if (::lstat(socket.c_str(), &status) == 0) {
    state_->socket_device = status.st_dev;
    state_->socket_inode = status.st_ino;
  }
  if (::chmod(socket.c_str(), 0600) != 0) return std::unexpected(SystemError("make private", socket, errno));
  state_->Accept();
  return {};
}

bool Server::IsReachable() const {
  struct stat status{};
  return !state_->socket_file.empty() && ::lstat(state_->socket_file.c_str(), &status) == 0 &&
         status.st_dev == state_->socket_device && status.st_ino == state_->socket_inode;
}

void Server::StopAccepting() {
  // Another daemon's, perhaps, by now.
  if (IsReachable()) ::unlink(state_->socket_file.c_str());
  std::error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  state_->socket_file.clear();
}

void Server::CloseConnections() {
  for (const auto& [id, session] : std::exchange(state_->sessions, {})) session->Close();
}

size_t Server::connection_count() const { return state_->sessions.size(); }

}  // namespace smeltr::daemon
