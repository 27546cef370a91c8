// Asks the daemon. Blocking, every call bounded in time. Not thread-safe.
#pragma once

#include <filesystem>
#include <utility>

#include "base/result.h"
#include "ipc/connection.h"
#include "ipc/message.h"

namespace smeltr::ipc {

// A busy machine may keep the daemon from a core for seconds.
inline constexpr int kCallLimitMs = 5000;

class Client {
 public:
  // Connects and says Hello. kNotFound, kUnavailable: no daemon there. kUnsupported: it speaks another
  // protocol version, the text says which side to update.
  static Result<Client> Connect(const std::filesystem::path& socket, std::string_view role,
                                int limit_ms = kCallLimitMs);

  const Welcome& welcome() const { return welcome_; }

  Result<Reserved> Call(const Reserve& request);
  Result<void> Call(const Attach& request);
  Result<void> Call(const Cancel& request);
  Result<Finished> Call(const Finish& request);

 private:
  explicit Client(Connection connection) : connection_(std::move(connection)) {}
  // The reply, or as an error what the daemon refused.
  template <typename R>
  Result<R> Ask(const Request& request, int limit_ms);

  Connection connection_;
  Welcome welcome_;
};

}  // namespace smeltr::ipc
