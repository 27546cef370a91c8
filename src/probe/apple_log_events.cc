#include "probe/apple_log_events.h"

#include <fmt/format.h>

#include <string>

#include "base/clock.h"
#include "crash/apple_log.h"
#include "probe/emit.h"

namespace smeltr::probe {
namespace {

constexpr uint32_t kLinesPerSecond = 50;
constexpr size_t kMaxTextBytes = 2048;

std::string_view Bounded(std::string_view text) { return text.substr(0, kMaxTextBytes); }

}  // namespace

void AppleLogEvents::Add(std::string_view json, uint64_t now_ns, uint64_t wall_now_ns, Sink& sink) {
  const auto entry = crash::ParseAppleLogLine(json);
  if (!entry.has_value()) return;
  // An entry is from the past, and not from long ago.
  const bool has_time = entry->wall_unix_ns != 0 && entry->wall_unix_ns <= wall_now_ns &&
                        wall_now_ns - entry->wall_unix_ns < now_ns;
  const uint64_t ts_ns = has_time ? now_ns - (wall_now_ns - entry->wall_unix_ns) : now_ns;
  event::OsLogLine line;
  if (const uint64_t second = now_ns / kNsPerSecond; second != second_) {
    if (left_out_ > 0) {
      const std::string text = fmt::format("{} more lines in one second were left out", left_out_);
      line.wall_unix_ns = wall_now_ns;
      line.category = "gap";
      line.message = std::string_view(text);
      sink.Emit(MakeEvent(now_ns, 0, line));
    }
    second_ = second;
    passed_ = 0;
    left_out_ = 0;
  }
  if (passed_ == kLinesPerSecond) {
    ++left_out_;
    return;
  }
  ++passed_;
  line.wall_unix_ns = has_time ? entry->wall_unix_ns : wall_now_ns;
  line.subsystem = Bounded(entry->subsystem);
  line.category = Bounded(entry->category);
  line.message = Bounded(entry->message);
  line.priority = entry->priority;
  line.target_pid = entry->pid;
  line.process_name = Bounded(entry->process_name);
  sink.Emit(MakeEvent(ts_ns, entry->pid, line));
}

}  // namespace smeltr::probe
