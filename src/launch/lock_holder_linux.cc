#include <sys/stat.h>

#include <charconv>
#include <string>
#include <vector>

#include "launch/lock_holder.h"
#include "util/file.h"
#include "util/process.h"

namespace smeltr::launch {
namespace {

// Class, mode, access, pid, device:inode.
constexpr size_t kWordCount = 6;

std::vector<std::string_view> Words(std::string_view line) {
  std::vector<std::string_view> words;
  while (words.size() < kWordCount) {
    line.remove_prefix(std::min(line.find_first_not_of(' '), line.size()));
    if (line.empty()) break;
    const size_t end = std::min(line.find(' '), line.size());
    words.push_back(line.substr(0, end));
    line.remove_prefix(end);
  }
  return words;
}

template <typename T>
bool Parse(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

// "12: FLOCK  ADVISORY  WRITE 4711 08:01:123456 0 EOF". The device is left out: some file systems have one
// for stat and another one here.
bool HoldsLock(std::string_view text, pid_t pid, uint64_t inode) {
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    const std::vector<std::string_view> words = Words(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (words.size() < kWordCount || words[1] != "FLOCK" || words[3] != "WRITE") continue;
    pid_t holder = 0;
    uint64_t file = 0;
    const bool read = Parse(words[4], holder) && Parse(words[5].substr(words[5].rfind(':') + 1), file);
    if (read && holder == pid && file == inode) return true;
  }
  return false;
}

std::optional<LockHolder> FindLockHolder(const std::filesystem::path& lock) {
  std::string text = ReadFile(lock, 64).value_or("");
  text.erase(std::min(text.find('\n'), text.size()));
  LockHolder holder;
  struct stat status{};
  if (!Parse(text, holder.pid) || holder.pid <= 0 || ::lstat(lock.c_str(), &status) != 0) return std::nullopt;
  if (!HoldsLock(ReadFile("/proc/locks").value_or(""), holder.pid, status.st_ino)) return std::nullopt;
  const auto facts = ReadProcessFacts(holder.pid);
  if (!facts.has_value()) return std::nullopt;
  holder.start_time_ticks = facts->start_time_ticks;
  holder.state = facts->state;
  return holder;
}

}  // namespace smeltr::launch
