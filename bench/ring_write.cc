// What one event costs the traced program: Writer::Write with its timestamp, as a multiple of the clock
// read that it contains. Budgets: 1.25 on one thread, 2 with two threads at once.
//
//   ring_write            the table of Google Benchmark, then the ratios
//
// The ring never fills: it is drained between the timed batches, never during one.
#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "ring/reader.h"
#include "ring/writer.h"

namespace smeltr {
namespace {

// 4,000 events of either kind fill 9 of 512 blocks: small enough to drain often, large enough that
// starting and stopping the clock of a batch does not count.
constexpr uint64_t kBatch = 4'000;
constexpr int kRepetitions = 15;

// A real ring file, made new for every benchmark.
class BenchRing {
 public:
  BenchRing() {
    char directory[] = "/dev/shm/smeltr-bench-XXXXXX";
    if (::mkdtemp(directory) == nullptr) throw std::runtime_error("cannot create a directory in /dev/shm");
    auto segment = ring::Segment::Create(directory, {});
    const std::string remove = fmt::format("rm -r '{}'", directory);
    if (::system(remove.c_str()) != 0 || !segment.has_value())
      throw std::runtime_error("cannot create a ring");
    static uint32_t generation = 0;
    writer_.Attach(&segment->header(), ++generation);
    reader_.emplace(std::move(*segment));
  }
  ring::Writer& writer() { return writer_; }
  void Drain() {
    while (
        reader_->Drain(UINT64_MAX, [](const event::Event& e) { benchmark::DoNotOptimize(e.envelope.ts_ns); })
            .event_count > 0) {
    }
  }
  bool lossless() { return reader_->TakeDropped().empty(); }

 private:
  ring::Writer writer_;
  std::optional<ring::Reader> reader_;
};

struct ClockRead {
  static void Run(ring::Writer&, uint64_t) { benchmark::DoNotOptimize(MonotonicNowNs()); }
};

struct WriteCbCommitted {
  static void Run(ring::Writer& writer, uint64_t i) {
    writer.Write(event::Api::kVulkan, event::CbCommitted{.cb_id = event::CbId{i},
                                                         .queue_id = event::QueueId{7},
                                                         .queue_depth = 3,
                                                         .scope_id = event::ScopeId{i / 8},
                                                         .label = {},
                                                         .type = event::CbType::kCommands,
                                                         .submission = i});
  }
};

struct WriteModuleEntered {
  static void Run(ring::Writer& writer, uint64_t i) {
    static constexpr std::string_view kNames[] = {"layer.0.attention", "layer.0.mlp", "layer.0.norm",
                                                  "sampling"};
    writer.Write(event::Api::kNone, event::ModuleEntered{.module_call_id = event::ScopeId{i},
                                                         .module_def_id = 0,
                                                         .qualname = kNames[i % 4],
                                                         .class_name = {},
                                                         .parent_call_id = event::ScopeId{1},
                                                         .depth = 2,
                                                         .origin = event::ScopeOrigin::kProgram,
                                                         .fields = {}});
  }
};

std::unique_ptr<BenchRing> g_ring;
std::unique_ptr<std::barrier<>> g_barrier;

template <typename Work>
void RunBatches(benchmark::State& state) {
  ring::Writer& writer = g_ring->writer();
  uint64_t next = 1;
  std::vector<double> event_ns;
  for (auto _ : state) {
    g_barrier->arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    for (const uint64_t end = next + kBatch; next < end; ++next) Work::Run(writer, next);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(elapsed.count());
    event_ns.push_back(elapsed.count() * 1e9 / kBatch);
    writer.ReleaseThreadBlock();
    g_barrier->arrive_and_wait();
    if (state.thread_index() == 0) g_ring->Drain();
  }
  std::ranges::sort(event_ns);
  const auto percentile = [&](size_t percent) {
    return benchmark::Counter(event_ns[event_ns.size() * percent / 100], benchmark::Counter::kAvgThreads);
  };
  state.counters["p10_ns"] = percentile(10);
  state.counters["p50_ns"] = percentile(50);
  if (state.thread_index() == 0 && !g_ring->lossless()) state.SkipWithError("the ring filled up");
}

void SetUp(const benchmark::State& state) {
  g_ring = std::make_unique<BenchRing>();
  g_barrier = std::make_unique<std::barrier<>>(state.threads());
}

template <typename Work>
void Register(const char* name, int threads) {
  benchmark::RegisterBenchmark(name, RunBatches<Work>)
      ->Threads(threads)
      ->Iterations(200)
      ->Repetitions(kRepetitions)
      ->UseManualTime()
      ->Setup(SetUp);
}

// Shows the usual table and keeps the batch times of every repetition. The ratio is that of the 10th
// percentiles: on a machine that does other things too, the undisturbed batches tell what a write costs.
class RatioReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      Times& times = times_[run.run_name.function_name + " x" + std::to_string(run.threads)];
      times.p10_ns.push_back(run.counters.at("p10_ns"));
      times.p50_ns.push_back(run.counters.at("p50_ns"));
    }
  }
  void PrintRatios() {
    const double clock_ns = Median(times_["clock x1"].p10_ns);
    fmt::print("\n{:<24} {:>9} {:>9} {:>12}\n", "one event, each thread", "p10 ns", "p50 ns", "p10 / clock");
    for (auto& [name, times] : times_) {
      const double p10_ns = Median(times.p10_ns);
      fmt::print("{:<24} {:>9.1f} {:>9.1f} {:>12.2f}\n", name, p10_ns, Median(times.p50_ns),
                 p10_ns / clock_ns);
    }
  }

 private:
  struct Times {
    std::vector<double> p10_ns;
    std::vector<double> p50_ns;
  };
  static double Median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return values[values.size() / 2];
  }
  std::map<std::string, Times> times_;
};

}  // namespace
}  // namespace smeltr

int main(int argc, char** argv) {
  using namespace smeltr;
  // Interleaved, so that a busy moment of the machine hits the clock and the writes alike.
  std::vector<char*> arguments(argv, argv + argc);
  char interleave[] = "--benchmark_enable_random_interleaving=true";
  arguments.insert(arguments.begin() + 1, interleave);
  int count = static_cast<int>(arguments.size());
  benchmark::Initialize(&count, arguments.data());
  for (const int threads : {1, 2}) {
    Register<ClockRead>("clock", threads);
    Register<WriteCbCommitted>("CbCommitted", threads);
    Register<WriteModuleEntered>("ModuleEntered", threads);
  }
  RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.PrintRatios();
}
