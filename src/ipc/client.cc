#include "ipc/client.h"

#include <poll.h>

namespace smeltr::ipc {

namespace {

constexpr int kLookMs = 1000;

bool WaitReadable(int fd, int limit_ms) {
  pollfd entry{fd, POLLIN, 0};
  return ::poll(&entry, 1, limit_ms) != 0;
}

}  // namespace

template <typename R>
Result<R> Client::Ask(const Request& request, int limit_ms, const std::function<bool()>& worth_waiting) {
  const auto sent = connection_.Send(Encode(request), limit_ms);
  for (; worth_waiting && sent.has_value() && limit_ms > kLookMs; limit_ms -= kLookMs) {
    if (WaitReadable(connection_.fd(), kLookMs)) break;
    if (!worth_waiting()) return Fail(ErrorCode::kIo, "smeltrd does not answer");
  }
  // A daemon that hangs up at once may have said why.
  const auto text = connection_.Receive(sent.has_value() ? limit_ms : 0);
  if (!text.has_value()) return std::unexpected(sent.has_value() ? text.error() : sent.error());
  SMELTR_ASSIGN_OR_RETURN(Reply reply, DecodeReply(*text));
  if (auto* wanted = std::get_if<R>(&reply)) return std::move(*wanted);
  if (const auto* refusal = std::get_if<Refusal>(&reply)) return Fail(refusal->code, refusal->text);
  return Fail(ErrorCode::kCorrupt, "smeltrd answered something else than what was asked");
}

Result<Client> Client::Connect(const std::filesystem::path& socket, std::string_view role, int limit_ms) {
  SMELTR_ASSIGN_OR_RETURN(Connection connection, Connection::Open(socket));
  Client client(std::move(connection));
  Hello hello;
  hello.role = role;
  SMELTR_ASSIGN_OR_RETURN(client.welcome_, client.Ask<Welcome>(hello, limit_ms));
  return client;
}

Result<Reserved> Client::Call(const Reserve& request) { return Ask<Reserved>(request, kCallLimitMs); }

Result<void> Client::Call(const Attach& request) {
  SMELTR_TRY(Ask<Ack>(request, kCallLimitMs));
  return {};
}

Result<void> Client::Call(const Cancel& request) {
  SMELTR_TRY(Ask<Ack>(request, kCallLimitMs));
  return {};
}

Result<Finished> Client::Call(const Finish& request, const std::function<bool()>& worth_waiting) {
  return Ask<Finished>(request, kFinishLimitMs + kCallLimitMs, worth_waiting);
}

Result<void> Client::Call(const Resume& request) {
  SMELTR_TRY(Ask<Ack>(request, kCallLimitMs));
  return {};
}

Result<Marked> Client::Call(const Mark& request) { return Ask<Marked>(request, kCallLimitMs); }

Result<StatusReport> Client::Call(const Status& request) { return Ask<StatusReport>(request, kCallLimitMs); }

Result<void> Client::Call(const Shutdown& request) {
  SMELTR_TRY(Ask<Ack>(request, kCallLimitMs));
  return {};
}

Result<Dumped> Client::Call(const Dump& request) {
  return Ask<Dumped>(request, kFinishLimitMs + kCallLimitMs);
}

Result<Subscribed> Client::Call(const Subscribe& request) { return Ask<Subscribed>(request, kCallLimitMs); }

Result<StreamItem> Client::Next(int limit_ms) {
  SMELTR_ASSIGN_OR_RETURN(const std::string message, connection_.Receive(limit_ms));
  return DecodeStreamItem(message);
}

}  // namespace smeltr::ipc
