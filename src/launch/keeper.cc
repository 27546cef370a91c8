#include "launch/keeper.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "launch/daemon_start.h"

namespace smeltr::launch {
namespace {

constexpr uint64_t kFirstPauseNs = 250'000'000;
constexpr uint64_t kLongestPauseNs = 5 * kNsPerSecond;
// While this takes, signals for the program wait.
constexpr int kTryLimitMs = 1000;

}  // namespace

Keeper::Keeper(Paths paths, std::filesystem::path daemon_program, std::string session_id, ipc::Client client)
    : paths_(std::move(paths)),
      daemon_program_(std::move(daemon_program)),
      session_id_(std::move(session_id)),
      client_(std::move(client)) {}

int Keeper::timeout_ms() const {
  if (client_.has_value() || given_up_) return -1;
  const uint64_t now_ns = MonotonicNowNs();
  return now_ns >= next_try_ns_ ? 0 : static_cast<int>((next_try_ns_ - now_ns) / 1'000'000 + 1);
}

void Keeper::Attend() {
  if (given_up_) return;
  if (client_.has_value()) {
    // Nothing is asked and nothing subscribed to: it can only be the end of the connection.
    client_.reset();
    pause_ns_ = kFirstPauseNs;
    next_try_ns_ = MonotonicNowNs();
  }
  if (MonotonicNowNs() >= next_try_ns_) TryAgain();
}

bool Keeper::MayStart() const {
  std::error_code error;
  return std::filesystem::exists(std::filesystem::symlink_status(paths_.socket, error));
}

Result<ipc::Client> Keeper::Reconnect() const {
  if (!MayStart()) return ipc::Client::Connect(paths_.socket, "record", kTryLimitMs);
  StartOptions options;
  options.limit_ms = kTryLimitMs;
  return ConnectOrStart(paths_, daemon_program_, "record", options);
}

void Keeper::TryAgain() {
  auto client = Reconnect();
  if (client.has_value()) {
    ipc::Resume resume;
    resume.session_id = session_id_;
    const auto resumed = client->Call(resume);
    // One that cannot resume may still finish.
    if (resumed.has_value() || resumed.error().code() == ErrorCode::kUnsupported) {
      client_ = std::move(*client);
      return;
    }
    given_up_ = resumed.error().code() == ErrorCode::kNotFound;
  }
  next_try_ns_ = MonotonicNowNs() + pause_ns_;
  pause_ns_ = std::min(2 * pause_ns_, kLongestPauseNs);
}

Result<ipc::Finished> Keeper::Finish(const ipc::Finish& finish) {
  if (client_.has_value()) {
    // Should it answer later, stopped as it is, it has what it needs.
    auto finished = client_->Call(finish, [this] { return DaemonAnswers(paths_, kTryLimitMs); });
    if (finished.has_value() || finished.error().code() != ErrorCode::kUnavailable) return finished;
  }
  // The daemon died. Its successor takes the session over with all that is still in the rings.
  SMELTR_ASSIGN_OR_RETURN(ipc::Client client, ConnectOrStart(paths_, daemon_program_, "record"));
  return client.Call(finish);
}

Result<void> Keeper::Cancel() {
  ipc::Cancel cancel;
  cancel.session_id = session_id_;
  return client_->Call(cancel);
}

}  // namespace smeltr::launch
