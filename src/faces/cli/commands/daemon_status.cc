// `smeltr daemon status`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>

#include "faces/cli/commands/daemon.h"
#include "faces/cli/console.h"
#include "faces/cli/daemon_client.h"
#include "faces/cli/table.h"
#include "faces/daemon_json.h"
#include "launch/daemon_start.h"
#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

constexpr size_t kLabelWidth = 14;

class Page {
 public:
  Page(const DaemonView& view, Console& console) : view_(view), report_(view.report), console_(console) {}

  void Print() {
    Header();
    Sessions();
    Probes();
  }

 private:
  void Line(std::string_view label, std::string_view text) {
    console_.Print(Labelled(label, kLabelWidth, text, console_.style()));
  }
  void Title(std::string_view text) {
    console_.Print("\n" + Coloured(text, Tone::kBold, console_.style()) + "\n");
  }

  std::string ManagedText() const {
    if (!report_.managed_by.empty()) return Printable(report_.managed_by);
    return launch::EndsWhenIdle(static_cast<pid_t>(report_.daemon_pid))
               ? "nobody; ends after a minute without work"
               : "nobody; stays until stopped";
  }

  void Header() {
    Line("smeltrd", fmt::format("{} runs, pid {}, for {}", Printable(report_.daemon_version),
                                report_.daemon_pid, FormatDuration(report_.uptime_ns)));
    if (report_.daemon_version != view_.client_version) {
      Line("Version",
           fmt::format("this smeltr is {}: `smeltr daemon restart` brings the same", view_.client_version));
    }
    Line("Home", Printable(report_.home));
    Line("Socket", Printable(view_.socket));
    Line("Managed by", ManagedText());
    const uint64_t uptime_ns = std::max<uint64_t>(report_.uptime_ns, 1);
    Line("Uses", fmt::format("{} memory, {} % of a core since its start", FormatBytes(report_.resident_bytes),
                             FormatPercent(report_.cpu_ns, uptime_ns)));
    Line("Clients", fmt::format("{}, {}", FormatCounted(report_.connection_count, "connection"),
                                FormatCounted(report_.subscriber_count, "subscriber")));
    Line("Recorder", fmt::format("last {} in {}", FormatDuration(report_.flight_recorder_ns),
                                 FormatBytes(report_.flight_recorder_bytes)));
    Line("Post-mortems", fmt::format("{} written, {} suppressed", FormatCount(report_.post_mortem_count),
                                     FormatCount(report_.suppressed_count)));
    if (report_.storage_paused) Line("Storage", "paused: the disk takes no more events; free some space");
  }

  void Sessions() {
    if (report_.sessions.empty()) return;
    Title("Open sessions");
    Table table({{"ID"},
                 {"KIND"},
                 {"STATE"},
                 {"PROCESSES", Align::kRight},
                 {"EVENTS", Align::kRight},
                 {"LOST", Align::kRight},
                 {"NAME, COMMAND", Align::kLeft, Flex::kCut}});
    for (const ipc::RecordingStatus& one : report_.sessions) {
      const uint64_t lost = one.dropped_count + one.storage_lost_count;
      const std::string what = one.name.empty() ? one.command : one.name + ": " + one.command;
      table.Add({Printable(one.short_id), Printable(one.kind), Printable(one.state),
                 fmt::format("{}", one.process_count), FormatCount(one.event_count), FormatCount(lost),
                 Printable(what)},
                lost > 0 ? Tone::kWarning : Tone::kPlain);
    }
    console_.Print(table.Render(console_.style()));
  }

  void Probes() {
    if (report_.probes.empty()) return;
    Title("Probes");
    Table table({{"PROBE"},
                 {"HEALTH"},
                 {"READINGS", Align::kRight},
                 {"CPU %", Align::kRight},
                 {"WHY", Align::kLeft, Flex::kWrap}});
    for (const ipc::ProbeStatus& probe : report_.probes) {
      const bool fine = probe.health == "ok" || probe.health == "starting" || probe.health == "absent";
      table.Add({Printable(probe.name), Printable(probe.health), FormatCount(probe.readings),
                 fmt::format("{:.2f}", probe.cost_pct), Printable(probe.reason)},
                fine ? Tone::kPlain : Tone::kWarning);
    }
    console_.Print(table.Render(console_.style()));
  }

  const DaemonView& view_;
  const ipc::StatusReport& report_;
  Console& console_;
};

class DaemonStatus final : public Command {
 public:
  CLI::App* AddTo(CLI::App& daemon) override {
    CLI::App* const app = daemon.add_subcommand("status", "Whether smeltrd runs, and what it does");
    app->add_flag("--json", json_, "Print JSON");
    app->footer("Example:\n  smeltr daemon status --json\nExit status 3: none runs, or it does not answer.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    DaemonView view;
    view.client_version = SMELTR_VERSION;
    view.home = paths.home.native();
    view.socket = paths.socket.native();
    const auto report = Ask(paths);
    view.running = report.has_value();
    if (report.has_value()) view.report = *report;
    if (!report.has_value()) view.reason = report.error().text();
    if (json_) {
      console.Print(StatusJson(view));
    } else if (view.running) {
      Page(view, console).Print();
    } else {
      console.Print(view.reason + "\n");
    }
    return view.running ? kExitOk : kExitNotRunning;
  }

 private:
  static Result<ipc::StatusReport> Ask(const Paths& paths) {
    const auto daemon = FindAnyDaemon(paths);
    if (!daemon.has_value()) {
      return Fail(
          ErrorCode::kNotFound,
          fmt::format("smeltrd does not run for {}; `smeltr daemon start` starts it", paths.home.native()));
    }
    auto client = ipc::Client::Connect(paths.socket, "cli");
    if (!client.has_value()) {
      return Fail(client.error().code(),
                  fmt::format("smeltrd, pid {}, does not answer: {}", daemon->pid, client.error().text()));
    }
    return client->Call(ipc::Status{});
  }

  bool json_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDaemonStatus() { return std::make_unique<DaemonStatus>(); }

}  // namespace smeltr::faces::cli
