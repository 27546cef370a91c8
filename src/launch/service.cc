// The contents of service files. Declared in service.h.
#include "launch/service.h"

#include <fmt/format.h>

#include <algorithm>

namespace smeltr::launch {
namespace {

bool IsControl(char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7F; }

Result<void> CheckPaths(const ServicePlan& plan) {
  for (const std::filesystem::path* path : {&plan.program, &plan.home, &plan.socket, &plan.log}) {
    if (std::ranges::any_of(path->native(), IsControl)) {
      return Fail(ErrorCode::kInvalidArgument, "a path with control characters cannot be in a service file");
    }
  }
  return {};
}

// A word between double quotes, as systemd reads them: backslash escapes, and % starts a specifier.
std::string SystemdQuoted(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') quoted += '\\';
    if (c == '%') quoted += '%';
    quoted += c;
  }
  return quoted + "\"";
}

std::string XmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace

Result<std::string> SystemdUnit(const ServicePlan& plan) {
  SMELTR_TRY(CheckPaths(plan));
  std::string text = fmt::format(
      "[Unit]\n"
      "Description=smeltr flight recorder for GPU work\n"
      "\n"
      "[Service]\n"
      "Type=notify\n"
      "ExecStart={}\n"
      "Environment={}\n",
      SystemdQuoted(plan.program.native()), SystemdQuoted("SMELTR_HOME=" + plan.home.native()));
  if (!plan.socket.empty()) {
    text += fmt::format("Environment={}\n", SystemdQuoted("SMELTR_SOCKET=" + plan.socket.native()));
  }
  // Unquoted, to the end of the line.
  std::string log = plan.log.native();
  for (size_t at = 0; (at = log.find('%', at)) != std::string::npos; at += 2) log.insert(at, 1, '%');
  text += fmt::format(
      "StandardOutput=append:{0}\n"
      "StandardError=append:{0}\n",
      log);
  // Exit status 3: another smeltrd serves this home. Coming back every 5 s would not change that.
  text +=
      "Restart=on-failure\n"
      "RestartSec=5\n"
      "RestartPreventExitStatus=3\n"
      "KillMode=mixed\n"
      "TimeoutStopSec=10\n"
      "\n"
      "[Install]\n"
      "WantedBy=default.target\n";
  return text;
}

Result<std::string> LaunchAgent(const ServicePlan& plan) {
  SMELTR_TRY(CheckPaths(plan));
  std::string socket;
  if (!plan.socket.empty()) {
    socket =
        fmt::format("    <key>SMELTR_SOCKET</key>\n    <string>{}</string>\n", XmlText(plan.socket.native()));
  }
  return fmt::format(
      R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0">
<dict>
  <key>Label</key>
  <string>{}</string>
  <key>ProgramArguments</key>
  <array>
    <string>{}</string>
  </array>
  <key>EnvironmentVariables</key>
  <dict>
    <key>SMELTR_HOME</key>
    <string>{}</string>
{}  </dict>
  <key>RunAtLoad</key>
  <true/>
  <key>KeepAlive</key>
  <dict>
    <key>SuccessfulExit</key>
    <false/>
  </dict>
  <key>ThrottleInterval</key>
  <integer>5</integer>
  <key>ExitTimeOut</key>
  <integer>10</integer>
  <key>StandardOutPath</key>
  <string>{}</string>
  <key>StandardErrorPath</key>
  <string>{}</string>
</dict>
</plist>
)",
      kLaunchAgentLabel, XmlText(plan.program.native()), XmlText(plan.home.native()), socket,
      XmlText(plan.log.native()), XmlText(plan.log.native()));
}

bool ServesHome(std::string_view service_file, const std::filesystem::path& home) {
  const std::string unit = SystemdQuoted("SMELTR_HOME=" + home.native());
  const std::string agent =
      fmt::format("<key>SMELTR_HOME</key>\n    <string>{}</string>", XmlText(home.native()));
  return service_file.find("Environment=" + unit + "\n") != std::string_view::npos ||
         service_file.find(agent) != std::string_view::npos;
}

}  // namespace smeltr::launch
