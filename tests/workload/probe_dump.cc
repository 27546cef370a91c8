// probe_dump [--seconds N] [--only NAME]... [--record SESSION:PID[:TOKEN]]... [--period MS] [--quiet]
// The probes of this system under their supervisor, without daemon and sessions: each event as one JSON
// object a line, {"session":"","event":{...}}, and at the end a line for each probe with its health and cost.
// Ends after N seconds (default 3), or at the end of its input when N is 0.

#include <fmt/format.h>
#include <poll.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "daemon/probes.h"
#include "event/json.h"
#include "util/process.h"

namespace smeltr {
namespace {

struct Options {
  uint64_t seconds = 3;
  std::vector<std::string_view> only;
  std::vector<probe::Recorded> recordings;
  bool quiet = false;
};

bool AddRecording(std::string_view text, Options& options) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return false;
  const std::string rest(text.substr(colon + 1));
  const size_t second = rest.find(':');
  probe::Recorded recorded;
  recorded.session_id = text.substr(0, colon);
  recorded.root_pid = static_cast<uint32_t>(::strtoul(rest.c_str(), nullptr, 10));
  if (second != std::string::npos) recorded.token = rest.substr(second + 1);
  const auto facts = ReadProcessFacts(static_cast<pid_t>(recorded.root_pid));
  if (!facts.has_value()) return false;
  recorded.root_start_time_ticks = facts->start_time_ticks;
  options.recordings.push_back(std::move(recorded));
  return true;
}

bool Parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view name = argv[i];
    if (name == "--quiet") {
      options.quiet = true;
      continue;
    }
    if (i + 1 == argc) return false;
    const char* value = argv[++i];
    if (name == "--seconds") {
      options.seconds = ::strtoull(value, nullptr, 10);
    } else if (name == "--only") {
      options.only.emplace_back(value);
    } else if (name == "--record") {
      if (!AddRecording(value, options)) return false;
    } else if (name == "--period") {
      for (auto& recorded : options.recordings) {
        recorded.footprint_period_ns = ::strtoull(value, nullptr, 10) * 1'000'000;
      }
    } else {
      return false;
    }
  }
  return true;
}

void Print(std::string_view session_id, const event::Event& event) {
  std::string line = "{\"session\":";
  event::AppendJsonText(session_id, line);
  line += ",\"event\":";
  event::AppendJson(event, line);
  line += "}\n";
  std::fwrite(line.data(), 1, line.size(), stdout);
}

void PrintState(const daemon::ProbeState& state) {
  std::string line = "{\"probe\":";
  event::AppendJsonText(state.name, line);
  line += ",\"health\":";
  event::AppendJsonText(probe::Name(state.health), line);
  line += ",\"reason\":";
  event::AppendJsonText(state.reason, line);
  line += fmt::format(",\"readings\":{},\"cost_pct\":{:.4f}}}\n", state.readings, state.cost_pct);
  std::fwrite(line.data(), 1, line.size(), stdout);
}

// Waits for the pipe that probes write to, for input's end, or for `until_ns`. False: the end.
bool Wait(int wake_fd, uint64_t until_ns, bool to_end_of_input) {
  pollfd waiting[2] = {{.fd = wake_fd, .events = POLLIN, .revents = 0},
                       {.fd = to_end_of_input ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}};
  const uint64_t now_ns = MonotonicNowNs();
  const uint64_t left_ms = until_ns > now_ns ? (until_ns - now_ns) / 1'000'000 + 1 : 0;
  ::poll(waiting, 2, static_cast<int>(std::min<uint64_t>(left_ms, 1000)));
  char bytes[64];
  if ((waiting[0].revents & POLLIN) != 0 && ::read(wake_fd, bytes, sizeof bytes) < 0) return false;
  if (waiting[1].revents != 0 && ::read(STDIN_FILENO, bytes, sizeof bytes) <= 0) return false;
  return MonotonicNowNs() < until_ns;
}

int Run(const Options& options) {
  auto all = probe::MakeAllProbes();
  if (!options.only.empty()) {
    std::erase_if(all, [&](const auto& probe) {
      return std::ranges::find(options.only, probe->name()) == options.only.end();
    });
  }
  int wake[2];
  if (::pipe(wake) != 0) return 1;
  daemon::Probes probes(std::move(all), [fd = wake[1]] {
    if (::write(fd, "", 1) < 0) std::perror("probe_dump: wake");
  });
  probes.SetRecordings(options.recordings);
  probes.Start();
  const bool to_end_of_input = options.seconds == 0;
  const uint64_t until_ns = to_end_of_input ? UINT64_MAX : MonotonicNowNs() + options.seconds * kNsPerSecond;
  for (bool more = true; more;) {
    more = Wait(wake[0], until_ns, to_end_of_input);
    probes.Poll(MonotonicNowNs());
    probes.Take([&](std::string_view session_id, const event::Event& event) {
      if (!options.quiet) Print(session_id, event);
    });
    std::fflush(stdout);
  }
  for (const daemon::ProbeState& state : probes.states()) PrintState(state);
  return 0;
}

}  // namespace
}  // namespace smeltr

int main(int argc, char** argv) {
  smeltr::Options options;
  if (!smeltr::Parse(argc, argv, options)) {
    std::fputs(
        "usage: probe_dump [--seconds N] [--only NAME]... [--record SESSION:PID[:TOKEN]]... [--period MS] "
        "[--quiet]\n",
        stderr);
    return 2;
  }
  return smeltr::Run(options);
}
