// Asks the daemon. Blocking, every call bounded in time. Not thread-safe.
#pragma once

#include <filesystem>
#include <functional>
#include <utility>

#include "base/result.h"
#include "ipc/connection.h"
#include "ipc/message.h"
#include "ipc/stream.h"

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
  // `worth_waiting` is asked every second without an answer, if given: false is the end (kIo).
  Result<Finished> Call(const Finish& request, const std::function<bool()>& worth_waiting = {});
  Result<void> Call(const Resume& request);
  Result<Marked> Call(const Mark& request);
  Result<StatusReport> Call(const Status& request);
  Result<void> Call(const Shutdown& request);
  Result<Dumped> Call(const Dump& request);

  // From then on Next() gives what happens, and nothing else may be called.
  Result<Subscribed> Call(const Subscribe& request);
  // kUnavailable when nothing comes within the limit: the daemon sends at least a Heartbeat every
  // kHeartbeatMs, but on a machine that is busy beyond measure it may be late. Its death shows at once. An
  // item that is not understood is kCorrupt, or kUnsupported from a newer daemon, and may be passed over.
  Result<StreamItem> Next(int limit_ms = 12 * kHeartbeatMs);

  // Becomes readable when the daemon hangs up, or a stream has something.
  int fd() const { return connection_.fd(); }

 private:
  explicit Client(Connection connection) : connection_(std::move(connection)) {}
  // The reply, or as an error what the daemon refused.
  template <typename R>
  Result<R> Ask(const Request& request, int limit_ms, const std::function<bool()>& worth_waiting = {});

  Connection connection_;
  Welcome welcome_;
};

}  // namespace smeltr::ipc
