// `smeltr tail`: events as they are recorded, one JSON object a line.
#include <fmt/format.h>
#include <signal.h>
#include <time.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iterator>
#include <random>
#include <utility>

#include "base/clock.h"
#include "event/names.h"
#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "faces/cli/daemon_client.h"
#include "faces/cli/tail_stream.h"
#include "faces/session_reference.h"
#include "util/format.h"
#include "util/paths.h"

namespace smeltr::faces::cli {
namespace {

constexpr uint64_t kFirstPauseMs = 500;
constexpr uint64_t kLongestPauseMs = 5000;

// Many tails of one daemon do not come back at the same instant.
uint64_t WithJitter(uint64_t pause_ms) {
  std::minstd_rand random(std::random_device{}());
  return pause_ms / 2 + std::uniform_int_distribution<uint64_t>(0, pause_ms / 2)(random);
}

void SleepMs(uint64_t ms) {
  const timespec pause{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000) * 1'000'000};
  ::nanosleep(&pause, nullptr);
}

bool DaemonIsAway(const Error& error) {
  return error.code() == ErrorCode::kNotFound || error.code() == ErrorCode::kUnavailable;
}

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// Full names of the kinds that are meant, however the letters were typed: "CbCompleted" is that of every GPU
// interface.
std::vector<std::string> KindsCalled(std::string_view typed) {
  const std::string wanted = Lower(typed);
  std::vector<std::string> names;
  for (const event::KindInfo& kind : event::AllKinds()) {
    const bool per_api = kind.naming == event::Naming::kPerApi;
    for (size_t api = per_api ? 1 : 0; api < (per_api ? event::kEnumSize<event::Api> : 1); ++api) {
      const event::KindName name(static_cast<event::Api>(api), kind.kind);
      if (Lower(name.view()) == wanted || Lower(kind.name) == wanted) names.emplace_back(name.view());
    }
  }
  return names;
}

bool NotUnderstood(const Error& error) {
  return error.code() == ErrorCode::kCorrupt || error.code() == ErrorCode::kUnsupported;
}

class Tail final : public Command {
 public:
  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* const app =
        root.add_subcommand("tail", "Print events as they are recorded, a JSON object a line");
    app->add_option("--session", references_, "Only of these; may be repeated")
        ->type_name("REF")
        ->allow_extra_args(false);
    app->add_option("--kind", kinds_, "Only these kinds, of docs/events.md, in any case; may be repeated")
        ->type_name("KIND")
        ->allow_extra_args(false);
    app->add_option("--pid", pids_, "Only of these processes; may be repeated")
        ->type_name("PID")
        ->allow_extra_args(false);
    app->add_flag("--follow", follow_, "Come back when smeltrd is restarted");
    app->add_flag("--safe-ints", options_.safe_ints, "Integers beyond 2^53 as strings, for JavaScript");
    app->add_option("--count", options_.count, "End after so many events, 1 or more")
        ->type_name("N")
        ->check(CLI::Validator(
            [](const std::string& text) { return text == "0" ? std::string("1 or more, not 0") : ""; }, ""));
    app->footer(
        "Examples:\n  smeltr tail --kind VulkanCbCompleted\n"
        "  smeltr tail --session baseline --follow | jq .\n"
        "A reader that is too slow loses events and sees {\"_smeltr_tail\":\"gap\"} lines in their place; it "
        "never slows the recording. Exit status 4: smeltrd is gone.");
    return app;
  }

  Result<int> Run(Console& console) override;

 private:
  enum class Outcome : uint8_t { kLost, kEnded };
  Result<Outcome> Stream(const Paths& paths, TailStream& stream, int attempt, Console& console);
  Result<void> Subscribe(const Paths& paths);

  std::vector<std::string> references_;
  std::vector<std::string> kinds_;
  std::vector<uint32_t> pids_;
  bool follow_ = false;
  TailOptions options_;
  ipc::Subscribe subscribe_;
  bool was_connected_ = false;  // By the current attempt.
  bool reader_left_ = false;
};

Result<void> Tail::Subscribe(const Paths& paths) {
  for (const std::string& kind : kinds_) {
    std::vector<std::string> names = KindsCalled(kind);
    if (names.empty()) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("no kind of event is called '{}'; docs/events.md lists them",
                              Printable(Truncate(kind, 60))));
    }
    std::ranges::move(names, std::back_inserter(subscribe_.kinds));
  }
  for (const std::string& reference : references_) {
    SMELTR_ASSIGN_OR_RETURN(const session::StoredSession stored, FindSession(paths.sessions, reference));
    if (!stored.metadata.ended_rfc3339.empty()) continue;
    SMELTR_ASSIGN_OR_RETURN(std::string id, SessionIdOf(paths, reference));
    subscribe_.session_ids.push_back(std::move(id));
  }
  subscribe_.pids = pids_;
  options_.session_ids = subscribe_.session_ids;
  // Who asks for some events wants no lines about every other session.
  options_.events_only = references_.empty() && (!kinds_.empty() || !pids_.empty());
  return {};
}

// One connection, from its start to its end.
Result<Tail::Outcome> Tail::Stream(const Paths& paths, TailStream& stream, int attempt, Console& console) {
  SMELTR_ASSIGN_OR_RETURN(ipc::Client client, ConnectToDaemon(paths, "tail"));
  const auto subscribed = client.Call(subscribe_);
  if (!subscribed.has_value()) {
    // It answered: no, not "try again".
    const bool refused = subscribed.error().code() == ErrorCode::kNotFound;
    return Fail(refused ? ErrorCode::kInvalidArgument : subscribed.error().code(), subscribed.error().text());
  }
  was_connected_ = true;
  std::string lines = stream.Connected(*subscribed, attempt);
  while (true) {
    switch (console.Deliver(lines)) {
      case Console::Delivery::kReaderLeft:
        reader_left_ = true;
        return Outcome::kEnded;
      case Console::Delivery::kFailed:
        return Outcome::kEnded;  // The caller's Flush() tells.
      case Console::Delivery::kDone:
        break;
    }
    if (!stream.ended().empty()) return Outcome::kEnded;
    lines.clear();
    const auto item = client.Next();
    // What is not understood, of a newer daemon say, is passed over; its connection holds.
    if (!item.has_value() && NotUnderstood(item.error())) continue;
    if (!item.has_value()) {
      console.Warn(stream.goodbye().empty() ? fmt::format("tail: smeltrd is gone: {}", item.error().text())
                                            : fmt::format("tail: smeltrd has ended: {}", stream.goodbye()));
      return Outcome::kLost;
    }
    lines = stream.Take(*item);
  }
}

Result<int> Tail::Run(Console& console) {
  ::signal(SIGPIPE, SIG_IGN);
  SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
  SMELTR_TRY(Subscribe(paths));
  if (!references_.empty() && subscribe_.session_ids.empty()) {
    console.Warn("tail: the session has ended: there is nothing to follow; `smeltr sessions show` has it");
    return kExitOk;
  }
  TailStream stream(options_);
  uint64_t pause_ms = kFirstPauseMs;
  int attempt = 0;
  bool ever_connected = false;
  while (true) {
    was_connected_ = false;
    const auto outcome = Stream(paths, stream, ever_connected ? attempt : 0, console);
    if (!outcome.has_value() && (!follow_ || !DaemonIsAway(outcome.error()))) {
      // A refused session or a daemon of another version: asking again changes nothing.
      if (!ever_connected) return Fail(ErrorCode::kUnavailable, outcome.error().text());
      console.Warn(fmt::format("tail: {}", outcome.error().text()));
      return kExitLost;
    }
    if (outcome.has_value() && *outcome == Outcome::kEnded) {
      if (!reader_left_ && !stream.ended().empty()) console.Warn("tail: " + stream.ended());
      return kExitOk;
    }
    if (!follow_) return kExitLost;
    if (was_connected_) {
      ever_connected = true;
      attempt = 0;
      pause_ms = kFirstPauseMs;
    } else if (attempt == 0 && !ever_connected) {
      console.Warn(fmt::format("tail: waiting for smeltrd: {}", outcome.error().text()));
    }
    ++attempt;
    SleepMs(WithJitter(pause_ms));
    pause_ms = std::min(2 * pause_ms, kLongestPauseMs);
  }
}

}  // namespace

std::unique_ptr<Command> MakeTail() { return std::make_unique<Tail>(); }

}  // namespace smeltr::faces::cli
