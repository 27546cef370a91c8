// `smeltr daemon install|uninstall`.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <system_error>

#include "faces/cli/commands/daemon.h"
#include "faces/cli/console.h"
#include "faces/cli/daemon_client.h"
#include "launch/daemon_start.h"
#include "launch/service.h"
#include "util/file.h"

namespace smeltr::faces::cli {
namespace {

launch::ServicePlan PlanService(const Paths& paths) {
  launch::ServicePlan plan;
  plan.program = launch::SiblingDaemon();
  plan.home = paths.home;
  // What this shell exports, the service would not know.
  if (!paths.own_socket_directory) plan.socket = paths.socket;
  plan.log = paths.log;
  return plan;
}

class DaemonInstall final : public Command {
 public:
  CLI::App* AddTo(CLI::App& daemon) override {
    CLI::App* const app = daemon.add_subcommand("install", "Have smeltrd run from every login on");
    app->footer(
        "Example:\n  smeltr daemon install\n"
        "On Linux a systemd user unit, on macOS a LaunchAgent. Where there is no systemd user manager, "
        "as in containers, smeltrd is started in the background instead, until the machine ends.");
    return app;
  }

  Result<int> Run(Console& console) override {
    SMELTR_ASSIGN_OR_RETURN(const Paths paths, ResolvePaths());
    SMELTR_TRY(MakePrivateDirectory(paths.home));
    if (const auto manager = launch::CheckServiceManager(); !manager.has_value()) {
      return StartInstead(paths, manager.error(), console);
    }
    // The service could not serve the home beside one that runs already.
    if (const auto running = FindDaemon(paths)) SMELTR_TRY(StopDaemon(paths, *running, false));
    SMELTR_TRY(launch::InstallService(PlanService(paths)));
    SMELTR_ASSIGN_OR_RETURN(const ipc::Client client, ConnectToDaemon(paths, "cli"));
    SMELTR_ASSIGN_OR_RETURN(const auto file, launch::ServiceFile());
    console.Print(
        fmt::format("installed {}\nsmeltrd runs, pid {}\n", file.native(), client.welcome().daemon_pid));
    if (const std::string advice = launch::ServiceAdvice(); !advice.empty()) console.Print(advice + "\n");
    return kExitOk;
  }

 private:
  static Result<int> StartInstead(const Paths& paths, const Error& why, Console& console) {
    console.Warn(fmt::format("not installed: {}", why.text()));
    SMELTR_ASSIGN_OR_RETURN(const pid_t pid, StartDaemonThatStays(paths));
    console.Print(
        fmt::format("smeltrd runs in the background instead, pid {}; `smeltr daemon start` does\n"
                    "the same after the next start of the machine\n",
                    pid));
    return kExitOk;
  }
};

class DaemonUninstall final : public Command {
 public:
  CLI::App* AddTo(CLI::App& daemon) override {
    CLI::App* const app = daemon.add_subcommand("uninstall", "Undo install, and stop smeltrd");
    app->footer("Example:\n  smeltr daemon uninstall\nSessions stay.");
    return app;
  }

  Result<int> Run(Console& console) override {
    const auto uninstalled = launch::UninstallService();
    if (!uninstalled.has_value() && uninstalled.error().code() == ErrorCode::kNotFound) {
      console.Print(fmt::format("not installed: {}\n", uninstalled.error().text()));
      return kExitOk;
    }
    SMELTR_TRY(uninstalled);
    SMELTR_ASSIGN_OR_RETURN(const auto file, launch::ServiceFile());
    console.Print(fmt::format("removed {}\n", file.native()));
    return kExitOk;
  }
};

}  // namespace

std::unique_ptr<Command> MakeDaemonInstall() { return std::make_unique<DaemonInstall>(); }
std::unique_ptr<Command> MakeDaemonUninstall() { return std::make_unique<DaemonUninstall>(); }

}  // namespace smeltr::faces::cli
