#include "daemon/lifecycle.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <asio/io_context.hpp>
#include <asio/post.hpp>
#include <asio/signal_set.hpp>
#include <asio/steady_timer.hpp>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "daemon/ambient.h"
#include "daemon/crash_guard.h"
#include "daemon/crash_reports.h"
#include "daemon/desk.h"
#include "daemon/log_file.h"
#include "daemon/notify.h"
#include "daemon/probes.h"
#include "daemon/recordings.h"
#include "daemon/server.h"
#include "daemon/sessions_host.h"
#include "session/retention.h"
#include "util/config.h"
#include "util/file.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFastest{1};
constexpr milliseconds kSlowest{20};
// Of rings that nobody writes to. Even a burst takes longer than that to fill one.
constexpr milliseconds kSleepy{100};
constexpr uint64_t kSleepyAfterNs = 2 * kNsPerSecond;
constexpr milliseconds kHousekeeping{1000};
constexpr milliseconds kHousekeepingInIncident{100};
constexpr uint64_t kRetentionPeriodNs = 3600 * kNsPerSecond;
constexpr uint64_t kShutdownLimitNs = 5 * kNsPerSecond;

Config ReadConfig(const Paths& paths) {
  auto loaded = LoadConfig(ConfigFile(paths.home));
  if (!loaded.has_value()) {
    Log(LogLevel::kError, fmt::format("{}: running with defaults", loaded.error().text()));
    return {};
  }
  for (const std::string& warning : loaded->warnings) Log(LogLevel::kWarning, warning);
  return loaded->config;
}

std::vector<std::unique_ptr<probe::Probe>> WantedProbes(const ProbeSettings& settings) {
  auto probes = probe::MakeAllProbes();
  std::vector<std::string> named = settings.only.value_or(std::vector<std::string>());
  named.insert(named.end(), settings.off.begin(), settings.off.end());
  for (const std::string& name : named) {
    const bool known = std::ranges::any_of(probes, [&](const auto& probe) { return probe->name() == name; });
    if (!known) Log(LogLevel::kWarning, fmt::format("config.toml: no probe is called '{}'", name));
  }
  std::erase_if(probes, [&](const auto& probe) { return !settings.Wanted(probe->name()); });
  return probes;
}

// Another's is used as it is.
Result<void> MakeSocketDirectory(const Paths& paths) {
  std::error_code error;
  const std::filesystem::path directory = paths.socket.parent_path();
  if (!paths.own_socket_directory && std::filesystem::exists(directory, error)) return {};
  return MakePrivateDirectory(directory);
}

// The parts, connected. Everything runs on one loop, but for probes, dumps and fsyncs.
class Daemon {
 public:
  Daemon(const Paths& paths, const DaemonOptions& options, const HomeLock& lock,
         std::filesystem::path ring_base, CrashGuard& crash_guard)
      : paths_(paths),
        options_(options),
        lock_(lock),
        crash_guard_(crash_guard),
        config_(ReadConfig(paths)),
        recorder_(config_.flight_recorder.seconds * kNsPerSecond, config_.flight_recorder.max_memory_bytes),
        reserve_(paths.run / "reserve"),
        recordings_(paths, std::move(ring_base), log_context_, config_.record),
        ambient_(paths.sessions, log_context_),
        host_(recordings_, ambient_, paths.sessions),
        post_mortems_(host_, recorder_, paths.sessions),
        probes_(WantedProbes(config_.probes), [this] { asio::post(io_, [this] { TakeFromProbes(); }); }),
        desk_(
            {recordings_, ambient_, router_, &probes_}, MakeWelcome(paths), [this] { Wake(); },
            [this] { asio::post(io_, [this] { Stop("stopped on request"); }); }),
        server_(io_, desk_) {}

  ~Daemon() { crash_guard_.SetFlush(nullptr, nullptr); }
  Daemon(const Daemon&) = delete;
  Daemon& operator=(const Daemon&) = delete;

  Result<void> Run() {
    // First of all: a signal during the start must not skip the end.
    for (const int signal : {SIGTERM, SIGINT}) signals_.add(signal);
    signals_.async_wait([this](const std::error_code& error, int signal) {
      if (!error) Stop(fmt::format("signal {}", signal));
    });
    router_.SetNow(MonotonicNowNs());
    if (config_.flight_recorder.seconds != 0) router_.WatchWith(&post_mortems_);
    recordings_.OnChange([this] { probes_.SetRecordings(recordings_.Recorded()); });
    recordings_.OnClosing([this](Recording& recording) {
      post_mortems_.SessionClosing(recording.metadata().session_id, router_.now_ns());
    });
    const std::vector<WrittenDump> own_crashes = RecoverCrashReports(paths_.run, paths_.sessions);
    recordings_.AdoptUnfinished();
    ambient_.Poll(router_.now_ns());
    for (const WrittenDump& dump : own_crashes) host_.Announce(dump);
    crash_guard_.SetFlush([](void* daemon) { static_cast<Daemon*>(daemon)->FlushInCrash(); }, this);
    ArmTestCrash();
    SMELTR_TRY(server_.Listen(paths_.socket));
    probes_.Start();
    TellReady();
    Log(LogLevel::kInfo,
        fmt::format("smeltrd {} (pid {}) ready at {}", SMELTR_VERSION, ::getpid(), paths_.socket.native()));
    Wake();
    Housekeep();
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
    NotifyServiceManager("READY=1");
    if (options_.ready_fd < 0) return;
    const char ready = 1;
    // Whoever started us may be gone; that is no reason not to run.
    [[maybe_unused]] const ssize_t written = ::write(options_.ready_fd, &ready, 1);
    ::close(options_.ready_fd);
  }

  // In a signal handler.
  void FlushInCrash() {
    recordings_.ForEach([](Recording& recording) { recording.log().FlushInCrash(); });
    if (SessionLog* log = ambient_.log(); log != nullptr) log->FlushInCrash();
  }

  void ArmTestCrash() {
    const auto test = ParseTestCrash(Environment("SMELTR_TEST_CRASH").value_or(""));
    if (!test.has_value()) return;
    test_crash_.expires_after(std::chrono::nanoseconds(test->after_ns));
    test_crash_.async_wait([way = test->way](const std::error_code& error) {
      if (!error) Crash(way);
    });
  }

  void Wake() {
    period_ = kFastest;
    Arm(milliseconds(0));
    // A dump was asked for, perhaps.
    if (post_mortems_.busy() && !stopping_) ArmHousekeeping();
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
    const uint64_t now_ns = MonotonicNowNs();
    router_.SetNow(now_ns);
    const Recordings::Progress progress = recordings_.Poll(now_ns);
    bus_.Flush(now_ns);
    if (recordings_.open_count() == 0) return;
    if (progress.busy) last_event_ns_ = now_ns;
    const bool sleepy = now_ns - last_event_ns_ > kSleepyAfterNs;
    period_ = progress.busy ? kFastest : std::min(period_ * 2, sleepy ? kSleepy : kSlowest);
    Arm(progress.more ? milliseconds(0) : period_);
  }

  // What the machine did is part of every recording, and of the time between.
  void TakeFromProbes() {
    if (stopping_) return;
    router_.SetNow(MonotonicNowNs());
    probes_.Take([this](std::string_view session_id, const event::Event& event) {
      if (session_id.empty()) {
        ambient_.Append(event);
        recordings_.AppendToAll(event);
      } else if (Recording* recording = recordings_.Find(session_id); recording != nullptr) {
        recording->log().Append(event);
      }
    });
    bus_.Flush(router_.now_ns());
  }

  void Housekeep() {
    if (stopping_) return;
    const uint64_t now_ns = MonotonicNowNs();
    if (!lock_.IsInPlace()) return Stop(fmt::format("{} was moved or deleted", paths_.lock.native()));
    if (!server_.IsReachable()) ListenAgain(now_ns);
    RotateLog(paths_.log);
    router_.SetNow(now_ns);
    ambient_.Poll(now_ns);
    probes_.Poll(now_ns);
    post_mortems_.Poll(now_ns);
    recorder_.Expire(now_ns);
    if (bus_.subscriber_count() != 0) bus_.Poll(now_ns, desk_.Standing());
    if (now_ns >= next_retention_ns_) EnforceRetention(now_ns);
    ArmHousekeeping();
  }

  // Somebody deleted the socket file.
  void ListenAgain(uint64_t now_ns) {
    const auto made = MakeSocketDirectory(paths_);
    const auto listening = made.has_value() ? server_.Listen(paths_.socket) : made;
    throttle_.Log(LogLevel::kWarning, listening.has_value() ? "listening again" : "not listening",
                  listening.has_value()
                      ? fmt::format("{} was gone: listening anew", paths_.socket.native())
                      : fmt::format("{}: nobody can reach this smeltrd", listening.error().text()),
                  now_ns);
  }

  void ArmHousekeeping() {
    housekeeping_.expires_after(post_mortems_.busy() ? kHousekeepingInIncident : kHousekeeping);
    housekeeping_.async_wait([this](const std::error_code& error) {
      if (!error) Housekeep();
    });
  }

  // Deleting takes time; it is done where fsyncs are.
  void EnforceRetention(uint64_t now_ns) {
    next_retention_ns_ = now_ns + kRetentionPeriodNs;
    sync_.Post([directory = paths_.sessions, settings = config_.retention]() -> Result<void> {
      SMELTR_ASSIGN_OR_RETURN(const session::RetentionReport report,
                              session::EnforceRetention(directory, settings, {}, WallNowNs()));
      for (const std::string& one : report.removed) Log(LogLevel::kInfo, "removed session " + one);
      for (const std::string& one : report.problems) Log(LogLevel::kWarning, one);
      return {};
    });
  }

  void ArmIdle() {
    if (!options_.idle_exit_ns.has_value()) return;
    idle_.expires_after(std::chrono::nanoseconds(std::min(*options_.idle_exit_ns, kNsPerSecond)));
    idle_.async_wait([this](const std::error_code& error) {
      if (!error) CheckIdle();
    });
  }

  void CheckIdle() {
    if (stopping_) return;
    const uint64_t now_ns = MonotonicNowNs();
    if (recordings_.open_count() != 0 || server_.connection_count() != 0) last_busy_ns_ = now_ns;
    if (now_ns - last_busy_ns_ >= *options_.idle_exit_ns) return Stop("idle");
    ArmIdle();
  }

  void Stop(std::string reason) {
    if (stopping_) return;
    server_.StopAccepting();
    TakeFromProbes();
    NotifyServiceManager("STOPPING=1");
    stopping_ = true;
    stop_reason_ = std::move(reason);
    for (asio::steady_timer* timer : {&tick_, &housekeeping_, &idle_, &test_crash_}) timer->cancel();
    const uint64_t deadline_ns = MonotonicNowNs() + kShutdownLimitNs;
    post_mortems_.Shutdown(deadline_ns);
    recordings_.Shutdown(deadline_ns);
    ambient_.Close("daemon-shutdown");
    router_.WatchWith(nullptr);
    bus_.Goodbye(stop_reason_);
    // Replies and the last of the streams are under way: they get to leave before the connections close.
    server_.CloseConnections();
    signals_.cancel();
  }

  const Paths& paths_;
  const DaemonOptions& options_;
  const HomeLock& lock_;
  CrashGuard& crash_guard_;
  Config config_;
  asio::io_context io_{1};
  asio::signal_set signals_{io_};
  asio::steady_timer tick_{io_};
  asio::steady_timer housekeeping_{io_};
  asio::steady_timer idle_{io_};
  asio::steady_timer test_crash_{io_};
  Bus bus_;
  FlightRecorder recorder_;
  Router router_{bus_, recorder_};
  DiskReserve reserve_;
  SyncThread sync_;
  LogContext log_context_{reserve_, router_, sync_};
  Recordings recordings_;
  Ambient ambient_;
  SessionsHost host_;
  PostMortems post_mortems_;
  Probes probes_;
  Desk desk_;
  Server server_;
  milliseconds period_ = kFastest;
  uint64_t last_event_ns_ = 0;
  uint64_t next_retention_ns_ = 0;
  uint64_t last_busy_ns_ = MonotonicNowNs();
  LogThrottle throttle_{60 * kNsPerSecond};
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
  return HomeLock(std::move(fd), file);
}

bool HomeLock::IsInPlace() const {
  struct stat held{};
  struct stat named{};
  return ::fstat(fd_.get(), &held) == 0 && ::lstat(file_.c_str(), &named) == 0 &&
         held.st_dev == named.st_dev && held.st_ino == named.st_ino;
}

Result<void> RunDaemon(const Paths& paths, const DaemonOptions& options, const HomeLock& lock) {
  SMELTR_TRY(MakePrivateDirectory(paths.run));
  SMELTR_TRY(MakePrivateDirectory(paths.sessions));
  SMELTR_TRY(MakeSocketDirectory(paths));
  SMELTR_ASSIGN_OR_RETURN(CrashGuard crash_guard, CrashGuard::Install(paths.run, SMELTR_VERSION));
  SMELTR_ASSIGN_OR_RETURN(const std::filesystem::path ring_base, MakeRingBase(paths));
  const auto ended = Daemon(paths, options, lock, ring_base, crash_guard).Run();
  // Shared memory outlives us: leave none behind. With anything in it the directory stays.
  ::rmdir(ring_base.c_str());
  return ended;
}

}  // namespace smeltr::daemon
