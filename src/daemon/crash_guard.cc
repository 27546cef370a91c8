#include "daemon/crash_guard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <stdexcept>
#include <utility>

#include "base/clock.h"
#include "daemon/crash_modules.h"
#include "util/file.h"

namespace smeltr::daemon {
namespace {

constexpr std::array kFatalSignals = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS};
constexpr std::array<std::string_view, 7> kSignalNames = {"SIGSEGV", "SIGBUS",  "SIGILL", "SIGFPE",
                                                          "SIGABRT", "SIGTRAP", "SIGSYS"};
constexpr size_t kStackBytes = size_t{256} << 10;
constexpr int kMaxFrames = 64;
constexpr unsigned kLimitSeconds = 2;  // For all that comes after the report.

enum class Stage : int { kArmed, kReporting, kFlushing, kDying };

// All that the handler touches. Plain and static: it may run when nothing else is to be trusted any more.
struct GuardState {
  std::atomic<Stage> stage{Stage::kArmed};
  std::atomic<int> file{-1};
  std::atomic<CrashGuard::Flush> flush{nullptr};
  std::atomic<void*> flush_context{nullptr};
  std::atomic<bool> flush_wanted{false};  // By another thread, of the owner.
  std::atomic<bool> flush_done{false};
  std::atomic<bool> reporter_known{false};
  pthread_t owner{};
  pthread_t reporter{};
  std::array<char, 64> version{};
  std::array<char, 256> reason{};  // Of std::terminate.
  std::array<CrashModule, 64> modules{};
  size_t module_count = 0;
  std::array<struct sigaction, kFatalSignals.size()> previous{};
  std::terminate_handler previous_terminate = nullptr;
};
constinit GuardState g_guard;
alignas(16) constinit std::array<std::byte, kStackBytes> g_stack{};

// A line at a time, with nothing but write().
class ReportLine {
 public:
  explicit ReportLine(int fd) : fd_(fd) {}
  ~ReportLine() {
    Put("\n");
    size_t done = 0;
    while (done < length_) {
      const ssize_t written = ::write(fd_, text_.data() + done, length_ - done);
      if (written <= 0 && errno != EINTR) return;
      if (written > 0) done += static_cast<size_t>(written);
    }
  }
  ReportLine(const ReportLine&) = delete;
  ReportLine& operator=(const ReportLine&) = delete;

  ReportLine& Put(std::string_view text) {
    const size_t fits = std::min(text.size(), text_.size() - length_);
    std::memcpy(text_.data() + length_, text.data(), fits);
    length_ += fits;
    return *this;
  }
  ReportLine& Put(uint64_t number, int base = 10) {
    std::array<char, 24> digits;
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number, base);
    if (base == 16) Put("0x");
    return Put({digits.data(), static_cast<size_t>(end.ptr - digits.data())});
  }

 private:
  int fd_;
  size_t length_ = 0;
  std::array<char, 512> text_;
};

std::string_view TextOf(std::span<const char> zero_ended) {
  return {zero_ended.data(), ::strnlen(zero_ended.data(), zero_ended.size())};
}

void PutAddress(int fd, uintptr_t address) {
  ReportLine line(fd);
  line.Put("  ").Put(address, 16);
  for (const CrashModule& module : std::span(g_guard.modules).first(g_guard.module_count)) {
    if (address < module.base || address >= module.end) continue;
    line.Put(" ").Put(TextOf(module.path)).Put("+").Put(address - module.base, 16);
    return;
  }
}

struct Walk {
  int fd;
  int frames = 0;
};

_Unwind_Reason_Code VisitFrame(_Unwind_Context* context, void* argument) {
  auto& walk = *static_cast<Walk*>(argument);
  const uintptr_t address = _Unwind_GetIP(context);
  if (address == 0 || ++walk.frames > kMaxFrames) return _URC_END_OF_STACK;
  PutAddress(walk.fd, address);
  return _URC_NO_REASON;
}

void WriteReport(int signal, const siginfo_t* info) {
  const int fd = g_guard.file.load();
  if (fd < 0) return;
  const auto* known = std::ranges::find(kFatalSignals, signal);
  const auto index = static_cast<size_t>(known - kFatalSignals.begin());
  // The title has its line break: the line's own would be a second.
  static_cast<void>(!::write(fd, kCrashReportTitle.data(), kCrashReportTitle.size()));
  ReportLine(fd).Put("version ").Put(TextOf(g_guard.version));
  ReportLine(fd).Put("pid ").Put(static_cast<uint64_t>(::getpid()));
  ReportLine(fd).Put("wall_unix_ns ").Put(WallNowNs());
  {
    ReportLine line(fd);
    line.Put("signal ").Put(index < kSignalNames.size() ? kSignalNames[index] : "unknown");
    line.Put(" (").Put(static_cast<uint64_t>(signal)).Put(")");
    // One that was sent has no address.
    if (info != nullptr && info->si_code > 0)
      line.Put(" at ").Put(reinterpret_cast<uintptr_t>(info->si_addr), 16);
  }
  if (g_guard.reason[0] != '\0') ReportLine(fd).Put("reason ").Put(TextOf(g_guard.reason));
  ReportLine(fd).Put(::pthread_equal(::pthread_self(), g_guard.owner) != 0 ? "thread main" : "thread other");
  ReportLine(fd).Put("backtrace");
  Walk walk{.fd = fd};
  _Unwind_Backtrace(VisitFrame, &walk);
}

void ArmAlarm() {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm_only;
  ::sigemptyset(&alarm_only);
  ::sigaddset(&alarm_only, SIGALRM);
  ::pthread_sigmask(SIG_UNBLOCK, &alarm_only, nullptr);
  ::alarm(kLimitSeconds);
}

void RunFlush() {
  const CrashGuard::Flush flush = g_guard.flush.exchange(nullptr);
  if (flush != nullptr) flush(g_guard.flush_context.load());
  g_guard.flush_done.store(true);
}

// The writers are the owner's. Asked by a signal, it flushes where it stands.
void FlushOnOwner() {
  if (::pthread_equal(::pthread_self(), g_guard.owner) != 0) return RunFlush();
  g_guard.flush_wanted.store(true);
  if (::pthread_kill(g_guard.owner, SIGABRT) != 0) return;
  const timespec pause{.tv_sec = 0, .tv_nsec = 2'000'000};
  while (!g_guard.flush_done.load()) ::nanosleep(&pause, nullptr);
}

[[noreturn]] void Die(int signal) {
  struct sigaction action{};
  action.sa_handler = SIG_DFL;
  ::sigaction(signal, &action, nullptr);
  ::raise(signal);
  ::_exit(128 + signal);
}

[[noreturn]] void WaitForTheEnd() {
  while (true) ::pause();
}

void OnFatalSignal(int signal, siginfo_t* info, void* /*context*/) {
  const bool is_owner = ::pthread_equal(::pthread_self(), g_guard.owner) != 0;
  if (is_owner && g_guard.flush_wanted.exchange(false)) {
    RunFlush();
    WaitForTheEnd();
  }
  Stage stage = Stage::kArmed;
  if (g_guard.stage.compare_exchange_strong(stage, Stage::kReporting)) {
    g_guard.reporter = ::pthread_self();
    g_guard.reporter_known.store(true);
    ArmAlarm();
    WriteReport(signal, info);
    stage = Stage::kReporting;
  } else if (g_guard.reporter_known.load() && ::pthread_equal(::pthread_self(), g_guard.reporter) == 0) {
    // One crash at a time. The owner in its flush is the exception: that is over now.
    if (is_owner) g_guard.flush_done.store(true);
    WaitForTheEnd();
  }
  // Here also when a step crashed itself: the next one then.
  if (stage == Stage::kReporting) {
    g_guard.stage.store(Stage::kFlushing);
    FlushOnOwner();
  }
  g_guard.stage.store(Stage::kDying);
  Die(signal);
}

// Not a signal handler yet: the exception may be looked at.
[[noreturn]] void OnTerminate() {
  const auto keep = [](std::string_view text) {
    std::memcpy(g_guard.reason.data(), text.data(), std::min(text.size(), g_guard.reason.size() - 1));
  };
  try {
    if (const std::exception_ptr current = std::current_exception()) std::rethrow_exception(current);
    keep("std::terminate");
  } catch (const std::exception& error) {
    keep(error.what());
  } catch (...) {
    keep("an exception of no standard type");
  }
  // One entry of a report is one line.
  std::ranges::replace_if(g_guard.reason, [](char c) { return c != '\0' && (c < ' ' || c > '~'); }, '?');
  std::abort();
}

void InstallHandlers() {
  stack_t stack{};
  stack.ss_sp = g_stack.data();
  stack.ss_size = g_stack.size();
  ::sigaltstack(&stack, nullptr);
  for (size_t i = 0; i < kFatalSignals.size(); ++i) {
    struct sigaction action{};
    action.sa_sigaction = OnFatalSignal;
    // A crash of the handler itself must get through.
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    ::sigemptyset(&action.sa_mask);
    ::sigaction(kFatalSignals[i], &action, &g_guard.previous[i]);
  }
  g_guard.previous_terminate = std::set_terminate(OnTerminate);
}

// The unwinder's first use may load and allocate.
void WarmUp() {
  int frames = 0;
  _Unwind_Backtrace(
      [](_Unwind_Context*, void* count) {
        return ++*static_cast<int*>(count) < kMaxFrames ? _URC_NO_REASON : _URC_END_OF_STACK;
      },
      &frames);
}

}  // namespace

Result<CrashGuard> CrashGuard::Install(const std::filesystem::path& run_directory, std::string_view version) {
  if (g_guard.file.load() >= 0) return Fail(ErrorCode::kAlreadyExists, "crashes are guarded already");
  std::filesystem::path path = run_directory / fmt::format("crash-{}.txt", ::getpid());
  // One of that name is an earlier process's that RecoverCrashReports could not use.
  ::unlink(path.c_str());
  Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file.valid()) return std::unexpected(SystemError("create", path, errno));
  g_guard.owner = ::pthread_self();
  g_guard.version.fill('\0');
  g_guard.reason.fill('\0');
  std::memcpy(g_guard.version.data(), version.data(), std::min(version.size(), g_guard.version.size() - 1));
  g_guard.module_count = CollectModules(g_guard.modules);
  WarmUp();
  g_guard.file.store(file.get());
  InstallHandlers();
  return CrashGuard(std::move(file), std::move(path));
}

CrashGuard::CrashGuard(CrashGuard&& other) noexcept
    : file_(std::move(other.file_)), path_(std::exchange(other.path_, {})) {}

CrashGuard::~CrashGuard() {
  if (path_.empty()) return;
  SetFlush(nullptr, nullptr);
  for (size_t i = 0; i < kFatalSignals.size(); ++i) {
    ::sigaction(kFatalSignals[i], &g_guard.previous[i], nullptr);
  }
  std::set_terminate(g_guard.previous_terminate);
  g_guard.file.store(-1);
  ::unlink(path_.c_str());
}

void CrashGuard::SetFlush(Flush flush, void* context) {
  g_guard.flush.store(nullptr);
  g_guard.flush_context.store(context);
  g_guard.flush.store(flush);
}

std::optional<TestCrash> ParseTestCrash(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return std::nullopt;
  const std::string_view way = text.substr(0, colon);
  const std::string_view number = text.substr(colon + 1);
  uint32_t milliseconds = 0;
  const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), milliseconds);
  if (error != std::errc{} || end != number.data() + number.size()) return std::nullopt;
  TestCrash crash{.after_ns = uint64_t{milliseconds} * 1'000'000};
  if (way == "segv") {
    crash.way = TestCrash::Way::kSegv;
  } else if (way == "throw") {
    crash.way = TestCrash::Way::kThrow;
  } else if (way != "abort") {
    return std::nullopt;
  }
  return crash;
}

void Crash(TestCrash::Way way) {
  if (way == TestCrash::Way::kSegv) ::raise(SIGSEGV);
  if (way == TestCrash::Way::kThrow) throw std::logic_error("SMELTR_TEST_CRASH asked for it");
  std::abort();
}

}  // namespace smeltr::daemon
