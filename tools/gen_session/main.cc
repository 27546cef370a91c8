// gen-session: writes a session as a recording of a program would have left it, of any length, for benchmarks
// and trials. The events are the same for the same options; nothing in them was measured.
#include <fmt/format.h>
#include <sys/resource.h>

#include <CLI/CLI.hpp>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>

#include "base/clock.h"
#include "program.h"
#include "session/identity.h"
#include "session/store.h"
#include "session/writer.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::gen_session {
namespace {

struct Options {
  uint64_t events = 1'000'000;
  ProgramOptions program;
  std::string home;
  std::string name;
  bool crash = false;
  bool cut_off = false;
};

constexpr std::string_view kExamples = R"(Examples:
  gen-session --events 10M --seed 7             a CUDA-like session of 10 million events
  gen-session --api vulkan --crash --name boom  one that ended by SIGSEGV, work in flight
  gen-session --cut-off --home DIR              one whose writer was killed, in another SMELTR_HOME)";

session::Metadata Describe(const Options& options) {
  session::Metadata metadata;
  metadata.name = options.name;
  metadata.start_mono_ns = options.program.start_ns;
  metadata.argv = {"gen-session", "--seed", std::to_string(options.program.seed)};
  metadata.cwd = "/";
  metadata.root_pid = Program::kPid;
  metadata.root_start_time_ticks = 77;
  metadata.hook_state = "injected";
  metadata.smeltr_version = SMELTR_VERSION;
  return metadata;
}

Result<void> Finish(const Options& options, const session::Writer& writer, const Program& program,
                    session::StoredSession& stored) {
  session::Metadata& metadata = stored.metadata;
  if (options.crash) {
    metadata.term_signal = SIGSEGV;
    metadata.end_reason = "signal";
  } else {
    metadata.exit_code = 0;
    metadata.end_reason = "exit";
  }
  metadata.event_counts = writer.stats().counts_by_kind;
  metadata.storage_lost_count = writer.stats().lost_count;
  const uint64_t started_ns = session::ParseInstant(metadata.started_rfc3339).value_or(0);
  metadata.ended_rfc3339 = session::FormatUtc(started_ns + program.now_ns() - options.program.start_ns);
  return session::WriteMetadata(stored.directory, metadata);
}

Result<void> Generate(const Options& options) {
  if (!options.home.empty()) ::setenv("SMELTR_HOME", options.home.c_str(), 1);
  SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
  SMELTR_ASSIGN_OR_RETURN(session::StoredSession stored,
                          session::CreateSession(paths.sessions, Describe(options)));
  SMELTR_ASSIGN_OR_RETURN(session::Writer writer,
                          session::Writer::Create(stored.directory / session::kEventsFile, {}));
  const uint64_t began_ns = MonotonicNowNs();
  uint64_t written = 0;
  Program program(options.program, [&](const event::Event& event) {
    writer.Append(event);
    ++written;
  });
  program.Start();
  while (written < options.events) program.Step();
  if (options.crash) program.Crash();
  if (!options.crash && !options.cut_off) program.End();
  if (options.cut_off) {
    SMELTR_TRY(writer.Flush());
  } else {
    SMELTR_TRY(writer.Close());
    SMELTR_TRY(Finish(options, writer, program, stored));
  }
  const uint64_t took_ns = MonotonicNowNs() - began_ns;
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  const session::WriterStats& stats = writer.totals();
  const auto events = static_cast<double>(stats.event_count);
  const double cpu_seconds = static_cast<double>(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
                             static_cast<double>(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6;
  fmt::print("{}  {} events, {} ({:.2f} B/event), {} ({:.2f} M events a second of CPU), peak {}\n",
             stored.short_id(), FormatCount(stats.event_count), FormatBytes(stats.file_bytes),
             static_cast<double>(stats.file_bytes) / events, FormatDuration(took_ns),
             events / 1e6 / cpu_seconds, FormatBytes(static_cast<uint64_t>(usage.ru_maxrss) * 1024));
  if (stats.lost_count != 0)
    return Fail(ErrorCode::kIo, fmt::format("the disk refused {} events", stats.lost_count));
  return {};
}

int Run(int argc, char** argv) {
  Options options;
  std::string api = "cuda";
  CLI::App app(
      "Writes a synthetic session: a transformer that decodes tokens, with scopes, memory and probes.",
      "gen-session");
  app.footer(std::string(kExamples));
  app.add_option("--events", options.events, "How many, about: 500k, 10M ...")
      ->transform(CLI::AsNumberWithUnit(std::map<std::string, uint64_t>{{"k", 1'000}, {"M", 1'000'000}}))
      ->capture_default_str();
  app.add_option("--seed", options.program.seed, "Sessions of one seed have the same events")
      ->capture_default_str();
  app.add_option("--api", api, "cuda: a command buffer a kernel; vulkan, metal: some 40 kernels each")
      ->check(CLI::IsMember({"cuda", "vulkan", "metal"}))
      ->capture_default_str();
  app.add_option("--layers", options.program.layers, "Of the transformer")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  app.add_option("--home", options.home, "Instead of SMELTR_HOME");
  app.add_option("--name", options.name, "Name of the session");
  CLI::Option* crash = app.add_flag("--crash", options.crash, "Ends by SIGSEGV, with work in flight");
  app.add_flag("--cut-off", options.cut_off, "Ends without index and end, as when the writer is killed")
      ->excludes(crash);
  CLI11_PARSE(app, argc, argv);
  options.program.api = api == "cuda"     ? event::Api::kCuda
                        : api == "vulkan" ? event::Api::kVulkan
                                          : event::Api::kMetal;
  if (auto done = Generate(options); !done) {
    fmt::print(stderr, "gen-session: {}\n", done.error().text());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace smeltr::gen_session

int main(int argc, char** argv) { return smeltr::gen_session::Run(argc, argv); }
