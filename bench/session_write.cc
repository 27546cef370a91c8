// Writing sessions: events a second on one core, compression included, and bytes an event on disk.
// Budgets: at least 5 M events/s, at most 4 bytes an event for lifecycle and ops of command buffers.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <stdexcept>

#include "bench/session_events.h"
#include "session/writer.h"

namespace smeltr {
namespace {

constexpr size_t kEvents = 1'000'000;
// The daemon's drain takes events out of rings and hands them on while they are in the cache: so here they
// are made, not counting the time, a few at a time.
constexpr size_t kAtATime = 1'000;

void WriteSession(benchmark::State& state, const bench::Mix& mix) {
  char directory[] = "/dev/shm/smeltr-bench-XXXXXX";
  if (::mkdtemp(directory) == nullptr) throw std::runtime_error("cannot create a directory in /dev/shm");
  const std::filesystem::path file = std::filesystem::path(directory) / "events.smlt";
  uint64_t file_bytes = 0;
  uint64_t event_count = 0;
  std::vector<event::Event> events;
  for (auto _ : state) {
    auto writer = session::Writer::Create(file, {});
    if (!writer) throw std::runtime_error(std::string(writer.error().text()));
    bench::CbEvents source(mix);
    for (size_t made = 0; made < kEvents; made += kAtATime) {
      state.PauseTiming();
      events.clear();
      source.Make(kAtATime, events);
      state.ResumeTiming();
      for (const event::Event& event : events) writer->Append(event);
    }
    if (auto closed = writer->Close(); !closed) throw std::runtime_error(std::string(closed.error().text()));
    file_bytes = writer->stats().file_bytes;
    event_count = writer->stats().event_count;
    state.PauseTiming();
    std::filesystem::remove(file);
    state.ResumeTiming();
  }
  std::filesystem::remove_all(directory);
  state.SetItemsProcessed(static_cast<int64_t>(event_count) * static_cast<int64_t>(state.iterations()));
  state.counters["bytes_per_event"] = static_cast<double>(file_bytes) / static_cast<double>(event_count);
}

BENCHMARK_CAPTURE(WriteSession, launches, bench::kLaunches)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(WriteSession, decode_loop, bench::kDecodeLoop)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace smeltr

BENCHMARK_MAIN();
