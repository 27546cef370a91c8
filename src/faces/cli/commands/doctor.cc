// `smeltr doctor`: the questions are faces/doctor/check.h.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <system_error>

#include "faces/cli/command.h"
#include "faces/cli/console.h"
#include "faces/cli/table.h"
#include "faces/doctor/check.h"
#include "util/format.h"

namespace smeltr::faces::cli {
namespace {

Tone ToneOf(doctor::Verdict verdict) {
  return verdict == doctor::Verdict::kOk ? Tone::kPlain : Tone::kWarning;
}

void Print(const std::vector<doctor::Check>& checks, Console& console) {
  size_t name_width = 0;
  for (const doctor::Check& check : checks) name_width = std::max(name_width, TextWidth(check.name));
  for (const doctor::Check& check : checks) {
    const std::string label =
        fmt::format("{:<8}  {:<{}}", Name(check.verdict), check.name, static_cast<int>(name_width));
    std::string text = check.detail;
    if (!check.fix.empty()) text += " -> " + check.fix;
    console.Print(
        Coloured(Labelled(label, TextWidth(label) + 2, Printable(text), {.width = console.style().width}),
                 ToneOf(check.verdict), console.style()));
  }
}

class Doctor final : public Command {
 public:
  CLI::App* AddTo(CLI::App& root) override {
    CLI::App* const app =
        root.add_subcommand("doctor", "Check whether recording works here, and how to fix it");
    app->add_flag("--json", json_, "Print JSON");
    // The program that the test recording records. Not for people: no help.
    app->add_flag("--child", child_)->group("");
    app->footer(
        "Example:\n  smeltr doctor\n"
        "Makes a test recording, which it deletes again. Exit status 1: `smeltr record` would not do its "
        "job; what is only degraded, or a failed probe, does not count.");
    return app;
  }

  Result<int> Run(Console& console) override {
    if (child_) return doctor::RunTestChild();
    doctor::Context context;
    const auto paths = ResolvePaths();
    std::vector<doctor::Check> checks;
    if (paths.has_value()) {
      context.paths = *paths;
      context.version = SMELTR_VERSION;
      std::error_code error;
      context.program = std::filesystem::read_symlink("/proc/self/exe", error).native();
      checks = doctor::CheckAll(context);
    } else {
      // Too long a socket path, or no home at all: nothing else can be asked.
      checks.push_back({.name = "home",
                        .verdict = doctor::Verdict::kFailed,
                        .detail = std::string(paths.error().text()),
                        .fix = "",
                        .vital = true});
    }
    if (json_) {
      console.Print(doctor::ToJson(checks));
    } else {
      Print(checks, console);
    }
    return doctor::CanRecord(checks) ? kExitOk : kExitFailed;
  }

 private:
  bool json_ = false;
  bool child_ = false;
};

}  // namespace

std::unique_ptr<Command> MakeDoctor() { return std::make_unique<Doctor>(); }

}  // namespace smeltr::faces::cli
