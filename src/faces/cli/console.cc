#include "faces/cli/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <limits>

namespace smeltr::faces::cli {
namespace {

constexpr size_t kNarrowest = 40;
constexpr size_t kUnlimited = std::numeric_limits<size_t>::max();

bool Set(const char* name) {
  const char* const value = std::getenv(name);
  return value != nullptr && *value != '\0';
}

// $COLUMNS, 0 when it says nothing.
size_t ColumnsVariable() {
  const char* const value = std::getenv("COLUMNS");
  if (value == nullptr) return 0;
  const std::string_view text(value);
  size_t columns = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), columns);
  return error == std::errc() && end == text.data() + text.size() ? columns : 0;
}

}  // namespace

Style StyleOf(std::FILE* stream) {
  Style style;
  const int fd = fileno(stream);
  const bool terminal = fd >= 0 && isatty(fd) != 0;
  const char* const term = std::getenv("TERM");
  style.colour = terminal && !Set("NO_COLOR") && term != nullptr && std::string_view(term) != "dumb";
  style.width = ColumnsVariable();
  if (style.width == 0 && !terminal) style.width = kUnlimited;
  if (style.width == 0) {
    winsize size{};
    style.width = ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
  }
  style.width = std::max(style.width, kNarrowest);
  return style;
}

void Console::Print(std::string_view text) {
  if (std::fwrite(text.data(), 1, text.size(), out_) != text.size()) failed_ = true;
}

void Console::Warn(std::string_view text) {
  std::fprintf(err_, "smeltr: %.*s\n", static_cast<int>(text.size()), text.data());
}

bool Console::Flush() {
  if (std::fflush(out_) != 0) failed_ = true;
  return !failed_;
}

Console::Delivery Console::Deliver(std::string_view text) {
  if (!Flush()) return Delivery::kFailed;
  while (!text.empty()) {
    const ssize_t count = ::write(fileno(out_), text.data(), text.size());
    if (count >= 0) {
      text.remove_prefix(static_cast<size_t>(count));
    } else if (errno == EPIPE) {
      return Delivery::kReaderLeft;
    } else if (errno != EINTR) {
      failed_ = true;
      return Delivery::kFailed;
    }
  }
  return Delivery::kDone;
}

}  // namespace smeltr::faces::cli
