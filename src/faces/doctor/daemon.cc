// smeltrd itself. Declared in check.h.
#include <fmt/format.h>
#include <unistd.h>

#include "faces/doctor/check.h"
#include "ipc/client.h"
#include "launch/daemon_start.h"
#include "launch/service.h"
#include "util/format.h"

namespace smeltr::faces::doctor {
namespace {

Check Program() {
  Check check{.name = "smeltrd program", .vital = true};
  const auto program = launch::SiblingDaemon();
  check.detail = program.native();
  if (::access(program.c_str(), X_OK) != 0) {
    check.verdict = Verdict::kFailed;
    check.detail += " cannot be run";
    check.fix = "install smeltrd beside smeltr";
  }
  return check;
}

Check Reachable(const Context& context) {
  Check check{.name = "smeltrd"};
  const auto client = ipc::Client::Connect(context.paths.socket, "doctor");
  if (!client.has_value()) {
    const ErrorCode code = client.error().code();
    const bool absent = code == ErrorCode::kNotFound || code == ErrorCode::kUnavailable;
    check.verdict = absent ? Verdict::kDegraded : Verdict::kFailed;
    check.vital = !absent;
    check.detail = client.error().text();
    check.fix = absent ? "`smeltr daemon start`; `record` starts one too" : "`smeltr daemon restart --force`";
    return check;
  }
  const ipc::Welcome& welcome = client->welcome();
  check.detail = fmt::format("{}, pid {}", Printable(welcome.daemon_version), welcome.daemon_pid);
  if (welcome.home != context.paths.home.native()) {
    check.verdict = Verdict::kFailed;
    check.vital = true;
    check.detail += fmt::format(", serves {}", Printable(welcome.home));
    check.fix = "unset SMELTR_SOCKET, or set SMELTR_HOME to the same";
  } else if (welcome.daemon_version != context.version) {
    check.verdict = Verdict::kDegraded;
    check.detail += fmt::format("; this smeltr is {}", context.version);
    check.fix = "`smeltr daemon restart`";
  }
  return check;
}

Check Service(const Context& context) {
  Check check{.name = "service"};
  if (launch::IsInstalledFor(context.paths.home)) {
    check.detail = fmt::format("installed with {}", launch::ServiceManagerName());
    return check;
  }
  const auto manager = launch::CheckServiceManager();
  check.detail = manager.has_value() ? "not installed: smeltrd runs when needed"
                                     : fmt::format("not installed; {}", manager.error().text());
  if (manager.has_value()) check.fix = "`smeltr daemon install` to watch the machine all the time";
  return check;
}

}  // namespace

std::vector<Check> CheckDaemon(const Context& context) {
  return {Program(), Reachable(context), Service(context)};
}

}  // namespace smeltr::faces::doctor
