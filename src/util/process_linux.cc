#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <charconv>
#include <filesystem>
#include <string_view>

#include "util/file.h"
#include "util/process.h"

namespace smeltr {
namespace {

template <typename T>
bool ParseNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

Result<ProcessFacts> ReadProcessFacts(pid_t pid) {
  SMELTR_ASSIGN_OR_RETURN(const std::string stat, ReadFile(fmt::format("/proc/{}/stat", pid), 4096));
  // The name in parentheses may hold spaces and parentheses itself; the fields begin after the last one.
  const size_t name_end = stat.rfind(") ");
  ProcessFacts facts;
  std::string_view rest = name_end == std::string::npos ? std::string_view() : std::string_view(stat);
  if (!rest.empty()) rest.remove_prefix(name_end + 2);
  bool good = !rest.empty();
  for (int field = 3; field <= 22 && good; ++field) {
    const size_t end = rest.find(' ');
    good = end != std::string_view::npos;
    const std::string_view value = rest.substr(0, end);
    if (field == 3 && good) facts.state = value.front();
    if (field == 4 && good) good = ParseNumber(value, facts.parent_pid);
    if (field == 22 && good) good = ParseNumber(value, facts.start_time_ticks);
    rest.remove_prefix(good ? end + 1 : 0);
  }
  if (!good) return Fail(ErrorCode::kCorrupt, fmt::format("cannot understand /proc/{}/stat", pid));
  return facts;
}

std::string ProcessExecutable(pid_t pid) {
  std::error_code error;
  return std::filesystem::read_symlink(fmt::format("/proc/{}/exe", pid), error).native();
}

std::string BootId() {
  auto text = ReadFile("/proc/sys/kernel/random/boot_id", 128);
  if (!text.has_value()) return {};
  while (!text->empty() && text->back() == '\n') text->pop_back();
  return *text;
}

std::string HostName() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0) return {};
  return name.data();
}

}  // namespace smeltr
