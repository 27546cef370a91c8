// Breakdown of a large session: seconds and peak memory. Budget: 10 M events in 1 s and 300 MB on 2 cores.
//   analyze [launches|decode_loop] [millions of events, default 10]
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "analysis/breakdown.h"
#include "base/clock.h"
#include "bench/session_events.h"
#include "session/reader.h"
#include "session/writer.h"

namespace smeltr {
namespace {

namespace fs = std::filesystem;

int Write(const fs::path& file, const bench::Mix& mix, size_t events) {
  bench::CbEvents source(mix);
  std::vector<event::Event> made;
  source.Make(events, made);
  auto writer = session::Writer::Create(file, {});
  if (!writer) return 1;
  const uint64_t scopes = events / (mix.scheduled ? 4 : 3) / 16 + 1;
  for (uint64_t id = 1; id <= scopes; ++id) {
    const event::Envelope envelope{.ts_ns = 5'000'000'000 + id, .pid = 4242, .tid = 4242};
    writer->Append({envelope, event::ModuleEntered{.module_call_id = event::ScopeId{id},
                                                   .qualname = id % 2 == 0 ? "attention" : "mlp"}});
    writer->Append({envelope, event::ModuleReturned{.module_call_id = event::ScopeId{id}}});
  }
  for (const event::Event& event : made) writer->Append(event);
  return writer->Close() ? 0 : 1;
}

int Analyze(const fs::path& file) {
  const uint64_t start_ns = MonotonicNowNs();
  auto reader = session::Reader::Open(file);
  if (!reader) return 1;
  std::vector<session::Reader> readers;
  readers.push_back(std::move(*reader));
  const analysis::Breakdown breakdown = analysis::ComputeBreakdown(analysis::SessionSource(readers), {});
  const uint64_t took_ns = MonotonicNowNs() - start_ns;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const double seconds = static_cast<double>(took_ns) / 1e9;
  const double cpu_seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                             static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  const auto events = static_cast<double>(readers[0].summary().event_count);
  fmt::print(
      "{:.2f} M events, {:.1f} MB: breakdown {:.2f} s ({:.2f} s CPU, {:.1f} M events/s), peak {:.0f} MB, "
      "exact {:.1f} %\n",
      events / 1e6, static_cast<double>(readers[0].summary().file_bytes) / 1e6, seconds, cpu_seconds,
      events / seconds / 1e6, static_cast<double>(usage.ru_maxrss) / 1e3,
      100.0 * static_cast<double>(breakdown.exact_ns) / static_cast<double>(breakdown.gpu_ns));
  return 0;
}

// Each step in a process of its own, so that peaks of memory do not mix.
template <typename F>
int InChild(F&& step) {
  std::fflush(stdout);
  const pid_t child = fork();
  if (child == 0) {
    const int status = step();
    std::fflush(stdout);
    _exit(status);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}

int Main(std::string_view mix_name, size_t events) {
#ifndef NDEBUG
  fmt::print("warning: built with assertions; figures mean nothing\n");
#endif
  char pattern[] = "/dev/shm/smeltr-bench-XXXXXX";
  if (mkdtemp(pattern) == nullptr) return 1;
  const fs::path directory = pattern;
  const fs::path file = directory / "events.smlt";
  const bench::Mix& mix = mix_name == "launches" ? bench::kLaunches : bench::kDecodeLoop;
  int status = InChild([&] { return Write(file, mix, events); });
  for (int round = 0; round < 3 && status == 0; ++round) status = InChild([&] { return Analyze(file); });
  fs::remove_all(directory);
  return status;
}

}  // namespace
}  // namespace smeltr

int main(int argc, char** argv) {
  const std::string_view mix = argc > 1 ? argv[1] : "decode_loop";
  const size_t millions = argc > 2 ? static_cast<size_t>(atoi(argv[2])) : 10;
  return smeltr::Main(mix, millions * 1'000'000);
}
