#include <libproc.h>
#include <mach/mach_time.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include "probe/process_tree.h"

// Times of start are microseconds of Unix time here, and "ticks" of the processor hundredths of a second, as
// sysconf(_SC_CLK_TCK) says.
namespace smeltr::probe {
namespace {

constexpr uint64_t kNsPerTick = 10'000'000;

uint64_t MachTimeToNs(uint64_t time) {
  static const mach_timebase_info_data_t base = [] {
    mach_timebase_info_data_t info{};
    ::mach_timebase_info(&info);
    return info;
  }();
  return base.denom == 0 ? time
                         : time / base.denom * base.numer + time % base.denom * base.numer / base.denom;
}

char StateLetter(uint32_t status) {
  constexpr std::array kLetters = {'?', 'I', 'R', 'S', 'T', 'Z'};
  return status < kLetters.size() ? kLetters.at(status) : '?';
}

std::string FixedText(const char* text, size_t size) { return {text, ::strnlen(text, size)}; }

ProcessEntry MakeEntry(const proc_bsdinfo& info) {
  ProcessEntry process;
  process.pid = info.pbi_pid;
  process.parent_pid = info.pbi_ppid;
  process.start_time_ticks = info.pbi_start_tvsec * 1'000'000 + info.pbi_start_tvusec;
  process.uid = info.pbi_uid;
  process.state = StateLetter(info.pbi_status);
  process.name = FixedText(info.pbi_name, sizeof(info.pbi_name));
  if (process.name.empty()) process.name = FixedText(info.pbi_comm, sizeof(info.pbi_comm));
  return process;
}

// Without what it uses when it is another user's.
bool ReadEntry(pid_t pid, ProcessEntry& process) {
  proc_taskallinfo all{};
  if (::proc_pidinfo(pid, PROC_PIDTASKALLINFO, 0, &all, sizeof(all)) == sizeof(all)) {
    process = MakeEntry(all.pbsd);
    process.cpu_ticks = MachTimeToNs(all.ptinfo.pti_total_user + all.ptinfo.pti_total_system) / kNsPerTick;
    process.thread_count = static_cast<uint32_t>(std::max(all.ptinfo.pti_threadnum, 0));
    return true;
  }
  proc_bsdinfo some{};
  if (::proc_pidinfo(pid, PROC_PIDTBSDINFO, 0, &some, sizeof(some)) != sizeof(some)) return false;
  process = MakeEntry(some);
  return true;
}

}  // namespace

std::vector<ProcessEntry> ListProcesses(const std::string& /*proc_root*/) {
  std::vector<ProcessEntry> processes;
  constexpr size_t kSpare = 64;
  // Both calls return a number of processes, not of bytes.
  const int expected = ::proc_listallpids(nullptr, 0);
  if (expected <= 0) return processes;
  std::vector<pid_t> pids(static_cast<size_t>(expected) + kSpare);
  const int found = ::proc_listallpids(pids.data(), static_cast<int>(pids.size() * sizeof(pid_t)));
  pids.resize(static_cast<size_t>(std::clamp(found, 0, static_cast<int>(pids.size()))));
  for (const pid_t pid : pids) {
    ProcessEntry process;
    if (ReadEntry(pid, process)) processes.push_back(std::move(process));
  }
  return processes;
}

EnvironmentAnswer AskEnvironment(const std::string& /*proc_root*/, uint32_t pid, std::string_view entry) {
  // The number of arguments, the executable's path, padding, the arguments, then the environment; each text
  // ends with a NUL.
  std::array<int, 3> name = {CTL_KERN, KERN_PROCARGS2, static_cast<int>(pid)};
  size_t size = 0;
  if (::sysctl(name.data(), name.size(), nullptr, &size, nullptr, 0) != 0) return EnvironmentAnswer::kHasNot;
  std::vector<char> block(size);
  if (::sysctl(name.data(), name.size(), block.data(), &size, nullptr, 0) != 0 || size < sizeof(int)) {
    return EnvironmentAnswer::kHasNot;
  }
  int left = 0;
  std::memcpy(&left, block.data(), sizeof(left));
  std::string_view rest(block.data() + sizeof(left), size - sizeof(left));
  rest.remove_prefix(std::min(rest.find('\0'), rest.size()));
  rest.remove_prefix(std::min(rest.find_first_not_of('\0'), rest.size()));
  bool any = false;
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\0'), rest.size());
    if (left > 0) {
      --left;
    } else {
      any = true;
      if (rest.substr(0, end) == entry) return EnvironmentAnswer::kHas;
    }
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return any ? EnvironmentAnswer::kHasNot : EnvironmentAnswer::kEmpty;
}

}  // namespace smeltr::probe
