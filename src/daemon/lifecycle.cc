#include "daemon/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <string>

#include "base/clock.h"
#include "daemon/recordings.h"
#include "daemon/server.h"
#include "util/file.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFastest{1};
constexpr milliseconds kSlowest{20};
constexpr uint64_t kShutdownLimitNs = 5 * kNsPerSecond;

class Daemon {
 public:
  Daemon(const Paths& paths, const DaemonOptions& options, std::filesystem::path ring_base)
      : paths_(paths),
        options_(options),
        signals_(io_),
        tick_(io_),
        idle_(io_),
        recordings_(paths, std::move(ring_base)),
        server_(io_, recordings_, MakeWelcome(paths), [this] { Wake(); }) {}

  Result<void> Run() {
    // First of all: a signal during the start must not skip the end.
    for (const int signal : {SIGTERM, SIGINT}) signals_.add(signal);
    signals_.async_wait([this](const std::error_code& error, int signal) {
      if (!error) Stop(fmt::format("signal {}", signal));
    });
    recordings_.AdoptUnfinished();
    SMELTR_TRY(server_.Listen(paths_.socket));
    TellReady();
    Log(LogLevel::kInfo,
        fmt::format("smeltrd {} (pid {}) ready at {}", SMELTR_VERSION, ::getpid(), paths_.socket.native()));
    Wake();
    ArmIdle();
    io_.run();
    Log(LogLevel::kInfo, fmt::format("smeltrd (pid {}) ended: {}", ::getpid(), stop_reason_));
    return {};
  }

 private:
  static ipc::Welcome MakeWelcome(const Paths& paths) {
    ipc::Welcome welcome;
    welcome.protocol = ipc::kProtocolVersion;
    welcome.daemon_version = SMELTR_VERSION;
    welcome.daemon_pid = static_cast<uint32_t>(::getpid());
    welcome.home = paths.home;
    return welcome;
  }

  void TellReady() {
    if (options_.ready_fd < 0) return;
    const char ready = 1;
    // Whoever started us may be gone; that is no reason not to run.
    [[maybe_unused]] const ssize_t written = ::write(options_.ready_fd, &ready, 1);
    ::close(options_.ready_fd);
  }

  void Wake() {
    period_ = kFastest;
    Arm(milliseconds(0));
  }

  void Arm(milliseconds delay) {
    if (stopping_) return;
    tick_.expires_after(delay);
    tick_.async_wait([this](const std::error_code& error) {
      if (!error) Tick();
    });
  }

  // Nothing ticks while nothing is recorded.
  void Tick() {
    const Recordings::Progress progress = recordings_.Poll(MonotonicNowNs());
    if (recordings_.open_count() == 0) return;
    period_ = progress.busy ? kFastest : std::min(period_ * 2, kSlowest);
    Arm(progress.more ? milliseconds(0) : period_);
  }

  void ArmIdle() {
    if (!options_.idle_exit_ns.has_value()) return;
    idle_.expires_after(std::chrono::nanoseconds(std::min(*options_.idle_exit_ns, kNsPerSecond)));
    idle_.async_wait([this](const std::error_code& error) {
      if (!error) CheckIdle();
    });
  }

  void CheckIdle() {
    const uint64_t now_ns = MonotonicNowNs();
    if (recordings_.open_count() != 0 || server_.connection_count() != 0) last_busy_ns_ = now_ns;
    if (now_ns - last_busy_ns_ >= *options_.idle_exit_ns) return Stop("idle");
    ArmIdle();
  }

  void Stop(std::string reason) {
    if (stopping_) return;
    stopping_ = true;
    stop_reason_ = std::move(reason);
    server_.StopAccepting();
    tick_.cancel();
    idle_.cancel();
    recordings_.Shutdown(MonotonicNowNs() + kShutdownLimitNs);
    // Replies to Finish requests are under way: they get to leave before the connections close.
    server_.CloseConnections();
    signals_.cancel();
  }

  const Paths& paths_;
  const DaemonOptions& options_;
  asio::io_context io_{1};
  asio::signal_set signals_;
  asio::steady_timer tick_;
  asio::steady_timer idle_;
  Recordings recordings_;
  Server server_;
  milliseconds period_ = kFastest;
  uint64_t last_busy_ns_ = MonotonicNowNs();
  bool stopping_ = false;
  std::string stop_reason_ = "nothing to do";
};

}  // namespace

Result<HomeLock> HomeLock::Acquire(const std::filesystem::path& file) {
  Fd fd(::open(file.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd.valid()) return std::unexpected(SystemError("open", file, errno));
  if (::flock(fd.get(), LOCK_EX | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) return std::unexpected(SystemError("lock", file, errno));
    std::string holder = ReadFile(file, 64).value_or("");
    holder.erase(std::ranges::find(holder, '\n'), holder.end());
    return Fail(ErrorCode::kAlreadyExists, fmt::format("smeltrd runs already: pid {} holds {}",
                                                       holder.empty() ? "?" : holder, file.native()));
  }
  const std::string pid = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd.get(), 0) != 0 || ::pwrite(fd.get(), pid.data(), pid.size(), 0) < 0) {
    // Only people miss it.
    Log(LogLevel::kWarning, std::string(SystemError("write", file, errno).text()));
  }
  return HomeLock(std::move(fd));
}

Result<void> RunDaemon(const Paths& paths, const DaemonOptions& options) {
  SMELTR_TRY(MakePrivateDirectory(paths.run));
  SMELTR_TRY(MakePrivateDirectory(paths.sessions));
  std::error_code error;
  if (paths.own_socket_directory || !std::filesystem::exists(paths.socket.parent_path(), error)) {
    SMELTR_TRY(MakePrivateDirectory(paths.socket.parent_path()));
  }
  SMELTR_ASSIGN_OR_RETURN(const std::filesystem::path ring_base, MakeRingBase(paths));
  const auto ended = Daemon(paths, options, ring_base).Run();
  // Shared memory outlives us: leave none behind. With anything in it the directory stays.
  ::rmdir(ring_base.c_str());
  return ended;
}

}  // namespace smeltr::daemon
