#include <filesystem>

#include "probe/proc.h"

namespace smeltr::probe {
namespace {

constexpr size_t kKernelNameLength = 15;

}  // namespace

std::string FullProcessName(const std::string& proc_root, const ProcessEntry& process) {
  if (process.name.size() < kKernelNameLength) return process.name;
  std::error_code error;
  std::string executable =
      std::filesystem::read_symlink(proc_root + "/" + std::to_string(process.pid) + "/exe", error)
          .filename()
          .native();
  constexpr std::string_view kDeleted = " (deleted)";
  if (executable.ends_with(kDeleted)) executable.resize(executable.size() - kDeleted.size());
  return executable.starts_with(process.name) ? executable : process.name;
}

std::string HiddenProcesses(const std::vector<ProcessEntry>& processes) {
  // The first process belongs to root and is always there.
  if (!processes.empty() && processes.front().pid == 1) return {};
  return "processes of other users are hidden (/proc is mounted with hidepid)";
}

}  // namespace smeltr::probe
