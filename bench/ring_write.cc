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
  uint64_t next = 1;
  for (auto _ : state) {
    g_barrier->arrive_and_wait();
    const auto start = std::chrono::steady_clock::now();
    for (const uint64_t end = next + kBatch; next < end; ++next) Work::Run(g_ring->writer(), next);
    const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
    state.SetIterationTime(elapsed.count());
    g_ring->writer().ReleaseThreadBlock();
    g_barrier->arrive_and_wait();
    if (state.thread_index() == 0) g_ring->Drain();
  }
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

// Shows the usual table and keeps the time of every repetition.
class RatioReporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(const std::vector<Run>& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (const Run& run : runs) {
      if (run.run_type != Run::RT_Iteration || run.error_occurred) continue;
      times_ns_[run.run_name.function_name + " x" + std::to_string(run.threads)].push_back(
          // The library reports one thread's time but the iterations of all.
          run.real_accumulated_time * static_cast<double>(run.threads) / static_cast<double>(run.iterations) *
          1e9 / kBatch);
    }
  }
  void PrintRatios() {
    const double base = Best("clock x1");
    fmt::print("\n{:<24} {:>9} {:>9} {:>13}\n", "one event", "best ns", "median ns", "best / clock");
    for (auto& [name, times] : times_ns_) {
      std::ranges::sort(times);
      fmt::print("{:<24} {:>9.1f} {:>9.1f} {:>13.2f}\n", name, times.front(), times[times.size() / 2],
                 times.front() / base);
    }
  }

 private:
  double Best(const std::string& name) { return std::ranges::min(times_ns_[name]); }
  std::map<std::string, std::vector<double>> times_ns_;
};

}  // namespace
}  // namespace smeltr

int main(int argc, char** argv) {
  using namespace smeltr;
  benchmark::Initialize(&argc, argv);
  for (const int threads : {1, 2}) {
    Register<ClockRead>("clock", threads);
    Register<WriteCbCommitted>("CbCommitted", threads);
    Register<WriteModuleEntered>("ModuleEntered", threads);
  }
  RatioReporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  reporter.PrintRatios();
}
