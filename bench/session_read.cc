// Reading sessions: a full scan in events a second on one core. Budget: at least 20 M.
// "typed" is Reader::ForEachOf, what the analysis uses; "any" is Reader::ForEach, for dumps and exports.
#include <benchmark/benchmark.h>
#include <stdlib.h>

#include <filesystem>
#include <stdexcept>

#include "bench/session_events.h"
#include "session/reader.h"
#include "session/writer.h"

namespace smeltr {
namespace {

constexpr size_t kEvents = 2'000'000;

class SessionFile {
 public:
  explicit SessionFile(const bench::Mix& mix) {
    char pattern[] = "/dev/shm/smeltr-bench-XXXXXX";
    if (::mkdtemp(pattern) == nullptr) throw std::runtime_error("cannot create a directory in /dev/shm");
    directory_ = pattern;
    bench::CbEvents source(mix);
    std::vector<event::Event> events;
    source.Make(kEvents, events);
    auto writer = session::Writer::Create(path(), {});
    if (!writer) throw std::runtime_error(std::string(writer.error().text()));
    for (const event::Event& event : events) writer->Append(event);
    if (!writer->Close()) throw std::runtime_error("cannot write");
  }
  ~SessionFile() { std::filesystem::remove_all(directory_); }
  std::filesystem::path path() const { return directory_ / "events.smlt"; }

 private:
  std::filesystem::path directory_;
};

session::Reader Open(const SessionFile& file) {
  auto reader = session::Reader::Open(file.path());
  if (!reader) throw std::runtime_error(std::string(reader.error().text()));
  return std::move(*reader);
}

void ScanTyped(benchmark::State& state, const bench::Mix& mix) {
  const SessionFile file(mix);
  uint64_t count = 0;
  for (auto _ : state) {
    const session::Reader reader = Open(file);
    uint64_t sum = 0;
    count = 0;
    reader.ForEachOf<event::CbCommitted>([&](const event::Envelope& envelope, const event::CbCommitted& e) {
      sum += envelope.ts_ns + event::Raw(e.cb_id) + event::Raw(e.scope_id);
      ++count;
    });
    reader.ForEachOf<event::CbScheduled>([&](const event::Envelope& envelope, const event::CbScheduled& e) {
      sum += envelope.ts_ns + event::Raw(e.cb_id);
      ++count;
    });
    reader.ForEachOf<event::CbCompleted>([&](const event::Envelope& envelope, const event::CbCompleted& e) {
      sum += envelope.ts_ns + event::Raw(e.cb_id) + e.gpu_end_ns - e.gpu_start_ns;
      ++count;
    });
    reader.ForEachOf<event::CbOps>([&](const event::Envelope&, const event::CbOps& e) {
      for (const event::OpSample& op : e.ops) sum += op.gpu_ns + op.symbol.view.size();
      ++count;
    });
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(static_cast<int64_t>(count) * static_cast<int64_t>(state.iterations()));
}

void ScanAny(benchmark::State& state, const bench::Mix& mix) {
  const SessionFile file(mix);
  uint64_t count = 0;
  for (auto _ : state) {
    const session::Reader reader = Open(file);
    uint64_t sum = 0;
    count = 0;
    reader.ForEach({}, [&](const event::Event& event) {
      sum += event.envelope.ts_ns + event.payload.index();
      ++count;
    });
    benchmark::DoNotOptimize(sum);
  }
  state.SetItemsProcessed(static_cast<int64_t>(count) * static_cast<int64_t>(state.iterations()));
}

BENCHMARK_CAPTURE(ScanTyped, launches, bench::kLaunches)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ScanTyped, decode_loop, bench::kDecodeLoop)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ScanAny, launches, bench::kLaunches)->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(ScanAny, decode_loop, bench::kDecodeLoop)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace smeltr

BENCHMARK_MAIN();
