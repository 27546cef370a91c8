// A large session: written, opened, read whole. Budget: the summary of 100 M events in 50 ms.
//   session_open [launches|decode_loop] [millions of events, default 100]
#include <fmt/format.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <cstdio>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "bench/session_events.h"
#include "session/reader.h"
#include "session/writer.h"

namespace smeltr {
namespace {

namespace fs = std::filesystem;

double Seconds(uint64_t since_ns) { return static_cast<double>(MonotonicNowNs() - since_ns) / 1e9; }

double PeakMegabytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<double>(usage.ru_maxrss) / 1e3;
}

// Returns whether it worked. Without `close` the file has no footer, as while it is being written.
bool Write(const fs::path& file, const bench::Mix& mix, size_t count, bool close) {
  auto writer = session::Writer::Create(file, {});
  if (!writer) return false;
  bench::CbEvents source(mix);
  std::vector<event::Event> events;
  for (size_t done = 0; done < count; done += events.size()) {
    events.clear();
    source.Make(4'000, events);
    for (const event::Event& event : events) writer->Append(event);
  }
  const bool stored = close ? writer->Close().has_value() : writer->Flush().has_value();
  fmt::print("{}: {:.1f} MB, peak memory {:.0f} MB\n", close ? "closed" : "still being written",
             static_cast<double>(writer->totals().file_bytes) / 1e6, PeakMegabytes());
  return stored;
}

void Scan(const session::Reader& reader, unsigned threads) {
  const uint64_t start_ns = MonotonicNowNs();
  uint64_t count = 0;
  reader.ReadParallel<uint64_t>(
      {}, threads, [](uint64_t& part, const session::Batch& batch) { part += batch.envelopes.size(); },
      [&](uint64_t part) { count += part; });
  const double seconds = Seconds(start_ns);
  fmt::print("  read whole on {} threads: {:.2f} s, {:.1f} M events/s, peak memory {:.0f} MB\n", threads,
             seconds, static_cast<double>(count) / seconds / 1e6, PeakMegabytes());
}

bool Read(const fs::path& file) {
  for (int round = 0; round < 5; ++round) {
    const uint64_t start_ns = MonotonicNowNs();
    const auto reader = session::Reader::Open(file);
    if (!reader) return false;
    const uint64_t count = reader->summary().event_count;
    fmt::print("  opened and summed up {} events: {:.2f} ms\n", count, Seconds(start_ns) * 1e3);
  }
  const auto reader = session::Reader::Open(file);
  if (!reader) return false;
  for (const unsigned threads : {1U, 2U}) Scan(*reader, threads);
  return true;
}

int Main(std::string_view mix_name, size_t count) {
  char pattern[] = "/dev/shm/smeltr-bench-XXXXXX";
  if (mkdtemp(pattern) == nullptr) return 1;
  const fs::path directory = pattern;
  const bench::Mix& mix = mix_name == "launches" ? bench::kLaunches : bench::kDecodeLoop;
  bool good = true;
  for (const bool close : {true, false}) {
    const fs::path file = directory / "events.smlt";
    good = good && Write(file, mix, count, close) && Read(file);
    fs::remove(file);
  }
  fs::remove_all(directory);
  return good ? 0 : 1;
}

}  // namespace
}  // namespace smeltr

int main(int argc, char** argv) {
  const std::string_view mix = argc > 1 ? argv[1] : "decode_loop";
  const size_t millions = argc > 2 ? static_cast<size_t>(atoi(argv[2])) : 100;
  return smeltr::Main(mix, millions * 1'000'000);
}
