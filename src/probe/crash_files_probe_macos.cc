#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "base/clock.h"
#include "probe/crash_files_probe.h"
#include "probe/crash_reports.h"
#include "util/paths.h"

namespace smeltr::probe {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kPeriodNs = kNsPerSecond;
constexpr const char* kReports = "Library/Logs/DiagnosticReports";

// Older reports are moved into a folder below; some go there at once.
std::vector<fs::path> ReportDirectories() {
  if (const auto directory = Environment("SMELTR_DIAGNOSTIC_REPORTS_DIR")) return {*directory};
  std::vector<fs::path> directories = {fs::path("/") / kReports, fs::path("/") / kReports / "Retired"};
  if (const auto home = Environment("HOME")) {
    directories.push_back(fs::path(*home) / kReports);
    directories.push_back(fs::path(*home) / kReports / "Retired");
  }
  return directories;
}

class CrashFilesProbe : public Probe {
 public:
  CrashFilesProbe()
      : directories_(ReportDirectories()),
        reports_(WallNowNs(), [](const fs::path&, const char*) { return std::string(); }) {
    std::vector<ReportSource> sources;
    for (const fs::path& directory : directories_) {
      sources.push_back(
          {.directory = directory, .kind = ReportKind::kApple, .pattern = {}, .core_uses_pid = false});
    }
    reports_.SetSources(sources);
  }

  std::string_view name() const override { return "crash-reports"; }
  uint64_t period_ns() const override { return kPeriodNs; }

  Status Sample(const Context& context, Sink& sink) override {
    reports_.Scan(context.now_ns, WallNowNs(), sink);
    // The folders of a user without a crash so far do not exist; the system's always does.
    if (::access(directories_.front().c_str(), R_OK | X_OK) == 0) return {};
    return {Health::kDegraded,
            directories_.front().native() +
                " cannot be read: reports of the memory killer go there; add yourself to the group "
                "admin or run smeltrd with more rights"};
  }

 private:
  std::vector<fs::path> directories_;
  CrashReports reports_;
};

}  // namespace

std::unique_ptr<Probe> MakeCrashFilesProbe() { return std::make_unique<CrashFilesProbe>(); }

}  // namespace smeltr::probe
