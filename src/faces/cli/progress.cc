#include "faces/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>

#include "base/clock.h"
#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

constexpr uint64_t kFirstAfterNs = kNsPerSecond / 2;
constexpr uint64_t kEveryNs = kNsPerSecond / 5;
constexpr const char* kClearLine = "\r\x1b[K";

}  // namespace

ProgressLine::ProgressLine(std::string_view work)
    : work_(work), terminal_(::isatty(STDERR_FILENO) != 0), next_ns_(MonotonicNowNs() + kFirstAfterNs) {}

ProgressLine::~ProgressLine() { Clear(); }

void ProgressLine::Clear() {
  if (shown_) std::fputs(kClearLine, stderr);
  shown_ = false;
}

void ProgressLine::Update(uint64_t done_bytes, uint64_t total_bytes) {
  if (!terminal_ || MonotonicNowNs() < next_ns_) return;
  next_ns_ = MonotonicNowNs() + kEveryNs;
  shown_ = true;
  const std::string line = fmt::format("{}{}: {} of {} ({} %)", kClearLine, work_, FormatBytes(done_bytes),
                                       FormatBytes(total_bytes), FormatPercent(done_bytes, total_bytes));
  std::fputs(line.c_str(), stderr);
}

}  // namespace smeltr::faces::cli
