// The reports of smeltrds that crashed (crash_guard.h), made into post-mortems by the next one.
#pragma once

#include <filesystem>
#include <vector>

#include "daemon/dump_writer.h"

namespace smeltr::daemon {

inline constexpr std::string_view kPanicReportFile = "panic-report.txt";

// Before sessions left open are adopted: the post-mortems tell which those are, and they of the post-mortems.
// Each report once: its file is removed when the post-mortem is on disk; one that fails is logged and tried
// again by the next daemon. Empty reports, of daemons that were killed, are removed.
std::vector<WrittenDump> RecoverCrashReports(const std::filesystem::path& run_directory,
                                             const std::filesystem::path& sessions_directory);

}  // namespace smeltr::daemon
