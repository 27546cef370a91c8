#include "faces/cli/session_text.h"

#include <unistd.h>

#include <cstdio>

#include "base/clock.h"
#include "util/format.h"

namespace smeltr::faces::cli {

std::string StartText(const session::Metadata& metadata) {
  int64_t unix_seconds = 0;
  if (!ParseRfc3339(metadata.started_rfc3339, unix_seconds)) return "?";
  return FormatLocalTime(unix_seconds);
}

std::string ShortStartText(const session::Metadata& metadata) {
  int64_t unix_seconds = 0;
  if (!ParseRfc3339(metadata.started_rfc3339, unix_seconds)) return "?";
  constexpr int64_t kMonthsSeconds = int64_t{300} * 86'400;
  const int64_t age_seconds = static_cast<int64_t>(WallNowNs() / kNsPerSecond) - unix_seconds;
  const std::string text = FormatLocalTime(unix_seconds);
  const bool recent = age_seconds > -86'400 && age_seconds < kMonthsSeconds;
  return recent && text.size() == 19 ? text.substr(5, 11) : text.substr(0, 10);
}

bool Confirmed(Console& console, const std::string& question) {
  if (::isatty(STDIN_FILENO) == 0 || ::isatty(STDOUT_FILENO) == 0) return true;
  console.Print(question + " [y/N] ");
  console.Flush();
  const int answer = std::getchar();
  return answer == 'y' || answer == 'Y';
}

}  // namespace smeltr::faces::cli
