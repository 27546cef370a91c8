// smeltr-demo: decodes tokens with a small transformer on a GPU. Its output is a function of the options and
// of the driver's name alone, so two runs can be compared byte by byte.

#include <smeltr/smeltr.h>

#include <CLI/CLI.hpp>
#include <atomic>
#include <chrono>
#include <cinttypes>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "model.h"
#include "reference.h"
#include "transformer.h"
#include "vulkan_context.h"

namespace smeltr::demo {
namespace {

constexpr int kExitFailure = 1;
constexpr int kExitUsage = 2;
constexpr uint32_t kMaxThreads = 2;
// Logits are around 1. Float32 and a driver's own exp() and rsqrt() differ from the reference by some 1e-5.
constexpr float kLogitTolerance = 1e-3f;

struct Options {
  Request request{.prompt_length = 14, .steps = 128, .seed = 1};
  uint32_t threads = 1;
  int device = -1;
  bool list_devices = false;
  bool check = false;
  bool loop_forever = false;
  bool timing = false;
  uint32_t crash_after_steps = 0;
  int exit_code = 0;
};

// What one thread decodes, and what came of it.
struct Sequence {
  size_t thread = 0;
  const Device* device = nullptr;
  VkQueue queue = VK_NULL_HANDLE;
  Request request;

  std::vector<uint32_t> tokens;
  std::vector<float> logits;  // [step][vocabulary], with --check.
  Counts counts;
  std::string error;
};

// FNV-1a over the bytes of the token ids, lowest first.
uint64_t Checksum(uint64_t hash, const std::vector<uint32_t>& tokens) {
  for (const uint32_t token : tokens) {
    for (int shift = 0; shift < 32; shift += 8) hash = (hash ^ ((token >> shift) & 0xFF)) * 0x100000001B3ULL;
  }
  return hash;
}
constexpr uint64_t kChecksumStart = 0xCBF29CE484222325ULL;

void DecodeOnce(Transformer& transformer, const Options& options) {
  transformer.Prefill();
  smeltr_mark("prefilled");
  for (uint32_t step = 0; step < options.request.steps; ++step) {
    transformer.Decode(step);
    if (step + 1 == options.crash_after_steps) std::raise(SIGSEGV);
  }
  transformer.Wait();
}

void Decode(const Model& model, const Options& options, const std::atomic<bool>& failed, Sequence& sequence) {
  Transformer transformer(*sequence.device, sequence.queue, model, sequence.request, options.check);
  if (options.loop_forever && sequence.thread == 0) {
    std::printf("decoding until killed\n");  // Who started us may wait for this line.
    std::fflush(stdout);
  }
  do {
    DecodeOnce(transformer, options);
  } while (options.loop_forever && !failed);
  const std::span<const uint32_t> tokens = transformer.Tokens();
  sequence.tokens.assign(tokens.begin(), tokens.end());
  for (uint32_t step = 0; options.check && step < sequence.request.steps; ++step) {
    const std::span<const float> logits = transformer.Logits(step);
    sequence.logits.insert(sequence.logits.end(), logits.begin(), logits.end());
  }
  sequence.counts = transformer.Submitted();
}

void DecodeCatching(const Model& model, const Options& options, std::atomic<bool>& failed,
                    Sequence& sequence) {
  try {
    Decode(model, options, failed, sequence);
  } catch (const std::exception& e) {
    sequence.error = e.what();
    failed = true;
  }
}

// The first sequence on this thread, each other on one of its own.
void DecodeAll(const Model& model, const Options& options, std::vector<Sequence>& sequences) {
  std::atomic<bool> failed = false;
  std::vector<std::jthread> threads;
  for (size_t i = 1; i < sequences.size(); ++i) {
    threads.emplace_back([&, i] { DecodeCatching(model, options, failed, sequences[i]); });
  }
  DecodeCatching(model, options, failed, sequences[0]);
}

// Compares with the reference and prints the outcome. Returns whether they agree.
bool CheckSequence(const Model& model, const Sequence& sequence) {
  const ReferenceResult expected = RunReference(model, sequence.request);
  float largest_difference = 0.0f;
  for (size_t step = 0; step < expected.tokens.size(); ++step) {
    for (size_t i = 0; i < kVocabulary; ++i) {
      const float difference = std::abs(sequence.logits[step * kVocabulary + i] - expected.logits[step][i]);
      // Not std::max: a NaN must not pass.
      if (!(difference <= largest_difference)) largest_difference = difference;
    }
    if (sequence.tokens[step] == expected.tokens[step] && largest_difference <= kLogitTolerance) continue;
    std::fprintf(
        stderr,
        "smeltr-demo: check failed at step %zu of thread %zu: token %u, reference %u, logits differ by %g\n",
        step, sequence.thread, sequence.tokens[step], expected.tokens[step], double{largest_difference});
    return false;
  }
  std::printf("thread %zu: check: ok, logits within %.1e of the reference, smallest margin %.1e\n",
              sequence.thread, double{largest_difference}, double{expected.smallest_margin});
  return true;
}

void PrintResults(const std::vector<Sequence>& sequences) {
  uint64_t checksum = kChecksumStart;
  Counts total;
  for (const Sequence& sequence : sequences) {
    const size_t i = sequence.thread;
    std::printf("thread %zu: tokens:", i);
    for (const uint32_t token : sequence.tokens) std::printf(" %u", token);
    std::printf("\nthread %zu: checksum: %016" PRIx64 "\n", i, Checksum(kChecksumStart, sequence.tokens));
    std::printf("thread %zu: dispatches: %" PRIu64 "\n", i, sequence.counts.dispatches);
    std::printf("thread %zu: command buffers: %" PRIu64 "\n", i, sequence.counts.command_buffers);
    checksum = Checksum(checksum, sequence.tokens);
    total += sequence.counts;
  }
  std::printf("checksum: %016" PRIx64 "\n", checksum);
  std::printf("dispatches: %" PRIu64 "\n", total.dispatches);
  std::printf("command buffers: %" PRIu64 "\n", total.command_buffers);
}

void ListDevices(const Instance& instance) {
  const std::vector<PhysicalDevice> devices = instance.PhysicalDevices();
  for (size_t i = 0; i < devices.size(); ++i) {
    const uint32_t version = devices[i].properties.apiVersion;
    std::printf("%zu: %s (%s, Vulkan %u.%u)\n", i, devices[i].Name(), devices[i].TypeName(),
                VK_API_VERSION_MAJOR(version), VK_API_VERSION_MINOR(version));
  }
}

int Run(const Options& options) {
  const Instance instance;
  if (options.list_devices) {
    ListDevices(instance);
    return 0;
  }
  const PhysicalDevice physical = instance.Choose(options.device);
  std::printf("smeltr-demo: %u layers of width %u, %u steps, %u thread(s), on %s\n", kLayers, kDim,
              options.request.steps, options.threads, physical.Name());
  std::fflush(stdout);

  // A queue a thread; on a device with too few queues, a device a thread.
  const bool shared = ComputeQueueCount(instance, physical, options.threads) == options.threads;
  std::vector<std::unique_ptr<Device>> devices;
  std::vector<Sequence> sequences(options.threads);
  for (uint32_t i = 0; i < options.threads; ++i) {
    if (i == 0 || !shared) {
      devices.push_back(std::make_unique<Device>(instance, physical, shared ? options.threads : 1));
    }
    sequences[i].thread = i;
    sequences[i].device = devices.back().get();
    sequences[i].queue = devices.back()->Queue(shared ? i : 0);
    sequences[i].request = options.request;
    sequences[i].request.seed += i;
  }

  const Model model(options.request.Context());
  const auto begin = std::chrono::steady_clock::now();
  DecodeAll(model, options, sequences);
  const std::chrono::duration<double, std::milli> elapsed = std::chrono::steady_clock::now() - begin;
  if (options.timing) std::fprintf(stderr, "decoding: %.3f ms\n", elapsed.count());
  for (const Sequence& sequence : sequences) {
    if (!sequence.error.empty()) throw Error(sequence.error);
  }
  PrintResults(sequences);
  if (options.check) {
    for (const Sequence& sequence : sequences) {
      if (!CheckSequence(model, sequence)) return kExitFailure;
    }
  }
  return options.exit_code;
}

void DefineOptions(CLI::App& app, Options& options) {
  const auto set_sampling = [&options](const std::string& name) {
    options.request.sampling = name == "greedy" ? Sampling::kGreedy : Sampling::kSeeded;
  };
  app.add_option("--steps", options.request.steps, "Tokens to generate")
      ->check(CLI::Range(1u, kMaxContext - 1))
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Threads, each with a sequence and a queue of its own")
      ->check(CLI::Range(1u, kMaxThreads))
      ->capture_default_str();
  app.add_option("--prompt-length", options.request.prompt_length, "Tokens of the prompt")
      ->check(CLI::Range(1u, kMaxContext - 1))
      ->capture_default_str();
  app.add_option("--seed", options.request.seed, "Of the prompt and of seeded sampling; thread i adds i")
      ->capture_default_str();
  app.add_option_function<std::string>("--sampling", set_sampling, "greedy (default), or seeded by --seed")
      ->check(CLI::IsMember({"greedy", "seeded"}))
      ->option_text("greedy|seeded");
  app.add_option("--device", options.device, "Index in --list-devices; without it the most capable kind")
      ->check(CLI::Range(0, 1024));
  app.add_flag("--list-devices", options.list_devices, "List the Vulkan devices and exit");
  app.add_flag("--check", options.check, "Compare with a plain C++ implementation of the same network");
  app.add_flag("--timing", options.timing, "Print on stderr how long the decoding took");
  app.add_option("--exit-code", options.exit_code, "Exit with this status at the end")
      ->check(CLI::Range(0, 255));
  app.add_option("--crash-after", options.crash_after_steps,
                 "Raise SIGSEGV once this many steps are submitted");
  app.add_flag("--loop-forever", options.loop_forever, "Decode again and again until killed");
}

int Main(int argc, char** argv) {
  Options options;
  CLI::App app("Decodes tokens with a small transformer in Vulkan compute: a workload to record.",
               "smeltr-demo");
  DefineOptions(app, options);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& e) {
    if (e.get_exit_code() == 0) return app.exit(e);  // --help
    std::fprintf(stderr, "smeltr-demo: %s; --help lists the options\n", e.what());
    return kExitUsage;
  }
  if (options.request.Context() > kMaxContext || options.crash_after_steps > options.request.steps) {
    std::fprintf(stderr, "smeltr-demo: %s\n",
                 options.crash_after_steps > options.request.steps
                     ? "--crash-after must not be more than --steps"
                     : "--prompt-length and --steps together must not be more than 4096");
    return kExitUsage;
  }
  int status = kExitFailure;
  try {
    status = Run(options);
  } catch (const std::exception& e) {
    std::fprintf(stderr, "smeltr-demo: %s\n", e.what());
  }
  if (std::fflush(stdout) != 0) {
    std::fprintf(stderr, "smeltr-demo: cannot write the results\n");
    status = kExitFailure;
  }
  return status;
}

}  // namespace
}  // namespace smeltr::demo

int main(int argc, char** argv) { return smeltr::demo::Main(argc, argv); }
