#include <fmt/format.h>
#include <sys/xattr.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "crash/core_files.h"
#include "probe/crash_files_probe.h"
#include "probe/crash_reports.h"
#include "probe/sampled_file.h"
#include "util/paths.h"

namespace smeltr::probe {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPeriodNs = kNsPerSecond;
// A core file is written after its process is gone, and big ones take their time.
constexpr uint64_t kLingerNs = 60 * kNsPerSecond;
constexpr size_t kMaxWorkingDirectories = 64;

std::string Attribute(const fs::path& file, const char* name) {
  std::array<char, 4096> value;
  const ssize_t size = ::lgetxattr(file.c_str(), name, value.data(), value.size());
  return size <= 0 ? std::string() : std::string(value.data(), static_cast<size_t>(size));
}

bool Readable(const std::string& directory) { return ::access(directory.c_str(), R_OK | X_OK) == 0; }

class CrashFilesProbe : public Probe {
 public:
  explicit CrashFilesProbe(CrashDirectories directories)
      : directories_(std::move(directories)),
        pattern_file_(directories_.core_pattern),
        reports_(WallNowNs(), Attribute) {}

  std::string_view name() const override { return "crash-reports"; }
  uint64_t period_ns() const override { return kPeriodNs; }

  Status Sample(const Context& context, Sink& sink) override {
    std::array<char, 512> buffer;
    const auto text = pattern_file_.Read(buffer);
    if (!text.has_value()) return {Health::kFailed, fmt::format("cannot read {}", directories_.core_pattern)};
    const bool changed = !pattern_.has_value() || pattern_->text != crash::ParseCorePattern(*text).text;
    if (changed) pattern_ = crash::ParseCorePattern(*text);
    if (NoteWorkingDirectories(context) || changed) reports_.SetSources(Sources());
    reports_.Scan(context.now_ns, WallNowNs(), sink);
    return Judge();
  }

 private:
  struct WorkingDirectory {
    std::string path;
    uint64_t last_used_ns = 0;
  };

  bool IsRelative() const {
    return pattern_->handler == crash::CoreHandler::kPath && pattern_->directory.empty();
  }

  // With a relative pattern core files lie where each program works. True when the list has changed.
  bool NoteWorkingDirectories(const Context& context) {
    bool changed = false;
    for (const Recorded& recorded : context.recordings) {
      if (!IsRelative()) break;
      std::error_code error;
      const std::string path =
          fs::read_symlink(fmt::format("/proc/{}/cwd", recorded.root_pid), error).native();
      const auto known = std::ranges::find(working_, path, &WorkingDirectory::path);
      if (known != working_.end()) {
        known->last_used_ns = context.now_ns;
      } else if (!error && working_.size() < kMaxWorkingDirectories) {
        working_.push_back({path, context.now_ns});
        changed = true;
      }
    }
    const size_t forgotten = std::erase_if(working_, [&](const WorkingDirectory& directory) {
      return directory.last_used_ns + kLingerNs < context.now_ns;
    });
    return changed || forgotten > 0;
  }

  std::vector<ReportSource> Sources() const {
    std::vector<ReportSource> sources;
    const auto add = [&](const std::string& directory, ReportKind kind) {
      sources.push_back({.directory = directory, .kind = kind, .pattern = {}, .core_uses_pid = false});
    };
    const auto add_core = [&](const std::string& directory) {
      std::array<char, 16> buffer;
      const auto uses_pid = ReadSmallFile(directories_.core_uses_pid, buffer);
      sources.push_back({.directory = directory,
                         .kind = ReportKind::kCore,
                         .pattern = *pattern_,
                         .core_uses_pid = uses_pid.has_value() && uses_pid->starts_with('1')});
    };
    switch (pattern_->handler) {
      case crash::CoreHandler::kSystemdCoredump:
        add(directories_.systemd, ReportKind::kSystemd);
        break;
      case crash::CoreHandler::kApport:
        add(directories_.apport, ReportKind::kApport);
        break;
      case crash::CoreHandler::kAbrt:
        add(directories_.abrt, ReportKind::kAbrt);
        break;
      case crash::CoreHandler::kPath:
        if (IsRelative()) {
          for (const WorkingDirectory& directory : working_) add_core(directory.path);
        } else {
          add_core(pattern_->directory);
        }
        break;
      case crash::CoreHandler::kNone:
      case crash::CoreHandler::kOtherPipe:
        break;
    }
    // Reports of another machine, for tests and for looking at them here.
    if (const auto apple = Environment("SMELTR_DIAGNOSTIC_REPORTS_DIR")) add(*apple, ReportKind::kApple);
    return sources;
  }

  static Status Unreadable(const std::string& directory) {
    return {Health::kDegraded,
            fmt::format("core_pattern sends crashes to {}, which cannot be read", directory)};
  }

  Status Judge() const {
    constexpr const char* kAdvice = "`sudo sysctl kernel.core_pattern=/var/crash/core.%e.%p`";
    switch (pattern_->handler) {
      case crash::CoreHandler::kNone:
        return {Health::kDegraded,
                fmt::format("core_pattern is empty, so crashes leave no file: {}", kAdvice)};
      case crash::CoreHandler::kOtherPipe:
        return {Health::kDegraded,
                fmt::format("crashes go to a program that smeltr does not know (core_pattern: {}): {}",
                            pattern_->text.substr(0, 128), kAdvice)};
      case crash::CoreHandler::kSystemdCoredump:
        return Readable(directories_.systemd) ? Status{} : Unreadable(directories_.systemd);
      case crash::CoreHandler::kApport:
        return Readable(directories_.apport) ? Status{} : Unreadable(directories_.apport);
      case crash::CoreHandler::kAbrt:
        return Readable(directories_.abrt) ? Status{} : Unreadable(directories_.abrt);
      case crash::CoreHandler::kPath:
        break;
    }
    if (IsRelative()) {
      return {Health::kDegraded,
              fmt::format(
                  "core files go to each program's working directory, and only that of recorded programs is "
                  "watched: {}",
                  kAdvice)};
    }
    if (pattern_->directory.find('%') != std::string::npos) {
      return {Health::kDegraded, fmt::format("core_pattern has a directory for each crash: {}", kAdvice)};
    }
    return Readable(pattern_->directory) ? Status{} : Unreadable(pattern_->directory);
  }

  CrashDirectories directories_;
  SampledFile pattern_file_;
  std::optional<crash::CorePattern> pattern_;
  std::vector<WorkingDirectory> working_;
  CrashReports reports_;
};

}  // namespace

std::unique_ptr<Probe> MakeCrashFilesProbe() { return MakeCrashFilesProbe(CrashDirectories{}); }

std::unique_ptr<Probe> MakeCrashFilesProbe(CrashDirectories directories) {
  return std::make_unique<CrashFilesProbe>(std::move(directories));
}

}  // namespace smeltr::probe
