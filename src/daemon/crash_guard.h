// What smeltrd still does when it crashes itself: a report, then what is buffered, then the same death.
//
// Fatal signals (SEGV BUS ILL FPE ABRT TRAP SYS) and std::terminate, so uncaught exceptions too. The handler
// runs on a stack of its own and first writes run/crash-<pid>.txt, with async-signal-safe calls only: signal,
// address, version, backtrace with the modules to symbolise it by. Then, with an alarm set that ends a
// process which hangs in it, the flush: best effort, since memory may be damaged. It runs on the thread that
// made the guard, whichever crashed. At last the signal is raised again with its default action.
// crash_reports.h makes a post-mortem of the report at the next start.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"

namespace smeltr::daemon {

// The first characters of every report.
inline constexpr std::string_view kCrashReportTitle = "smeltrd crashed\n";

class CrashGuard {
 public:
  using Flush = void (*)(void* context);

  // One a process, on the loop's thread, as early as the run directory exists. An empty report file is there
  // from now on.
  static Result<CrashGuard> Install(const std::filesystem::path& run_directory, std::string_view version);
  CrashGuard(CrashGuard&& other) noexcept;
  CrashGuard& operator=(CrashGuard&&) = delete;
  // Puts the handlers back and removes the file: nothing happened.
  ~CrashGuard();

  // Called once in a crash, in a signal handler: no more than SegmentedWriter::FlushIfIdle of every open
  // session. nullptr before `context` ends.
  void SetFlush(Flush flush, void* context);

 private:
  CrashGuard(Fd file, std::filesystem::path path) : file_(std::move(file)), path_(std::move(path)) {}

  Fd file_;
  std::filesystem::path path_;  // Empty: moved from.
};

// SMELTR_TEST_CRASH, for tests: "segv:500" dies by SIGSEGV after 500 ms, likewise "abort:..." and
// "throw:...", the latter an exception that nobody catches.
struct TestCrash {
  enum class Way : uint8_t { kSegv, kAbort, kThrow };
  Way way = Way::kAbort;
  uint64_t after_ns = 0;
};
std::optional<TestCrash> ParseTestCrash(std::string_view text);
// Does it now.
[[noreturn]] void Crash(TestCrash::Way way);

}  // namespace smeltr::daemon
