#include "ipc/client.h"

namespace smeltr::ipc {

template <typename R>
Result<R> Client::Ask(const Request& request, int limit_ms) {
  SMELTR_TRY(connection_.Send(Encode(request), limit_ms));
  SMELTR_ASSIGN_OR_RETURN(const std::string text, connection_.Receive(limit_ms));
  SMELTR_ASSIGN_OR_RETURN(Reply reply, DecodeReply(text));
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

Result<Finished> Client::Call(const Finish& request) {
  return Ask<Finished>(request, kFinishLimitMs + kCallLimitMs);
}

}  // namespace smeltr::ipc
