#include "launch/service.h"

#include <gtest/gtest.h>
#include <signal.h>

#include <fstream>

#include "fake/scratch.h"
#include "launch/run_tool.h"
#include "util/file.h"

namespace smeltr::launch {
namespace {

ServicePlan Plan() {
  return {.program = "/opt/sm el/smeltrd", .home = "/home/a%b", .socket = {}, .log = "/home/a%b/smeltrd.log"};
}

TEST(Service, SystemdUnit) {
  EXPECT_EQ(SystemdUnit(Plan()).value(),
            "[Unit]\n"
            "Description=smeltr flight recorder for GPU work\n"
            "\n"
            "[Service]\n"
            "Type=notify\n"
            "ExecStart=\"/opt/sm el/smeltrd\"\n"
            "Environment=\"SMELTR_HOME=/home/a%%b\"\n"
            "StandardOutput=append:/home/a%%b/smeltrd.log\n"
            "StandardError=append:/home/a%%b/smeltrd.log\n"
            "Restart=on-failure\n"
            "RestartSec=5\n"
            "RestartPreventExitStatus=3\n"
            "KillMode=mixed\n"
            "TimeoutStopSec=10\n"
            "\n"
            "[Install]\n"
            "WantedBy=default.target\n");
}

TEST(Service, SystemdUnitQuotes) {
  ServicePlan plan = Plan();
  plan.home = "/a \"b\"\\c";
  plan.socket = "/s $x";
  const std::string unit = SystemdUnit(plan).value();
  EXPECT_NE(unit.find("Environment=\"SMELTR_HOME=/a \\\"b\\\"\\\\c\"\n"), std::string::npos) << unit;
  EXPECT_NE(unit.find("Environment=\"SMELTR_SOCKET=/s $x\"\n"), std::string::npos) << unit;
}

TEST(Service, LaunchAgent) {
  ServicePlan plan = Plan();
  plan.home = "/Users/<a>&'b\"";
  plan.socket = "/tmp/s";
  const std::string plist = LaunchAgent(plan).value();
  EXPECT_TRUE(plist.starts_with("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<!DOCTYPE plist PUBLIC "));
  for (const std::string_view part :
       {"<key>Label</key>\n  <string>com.smeltr.daemon</string>", "<string>/opt/sm el/smeltrd</string>",
        "<key>SMELTR_HOME</key>\n    <string>/Users/&lt;a&gt;&amp;&apos;b&quot;</string>",
        "<key>SMELTR_SOCKET</key>\n    <string>/tmp/s</string>", "<key>RunAtLoad</key>\n  <true/>",
        "<key>KeepAlive</key>\n  <dict>\n    <key>SuccessfulExit</key>\n    <false/>",
        "<key>ThrottleInterval</key>\n  <integer>5</integer>",
        "<key>StandardErrorPath</key>\n  <string>/home/a%b/smeltrd.log</string>"}) {
    EXPECT_NE(plist.find(part), std::string::npos) << part << " in\n" << plist;
  }
  EXPECT_TRUE(plist.ends_with("</dict>\n</plist>\n"));
  plan.socket.clear();
  EXPECT_EQ(LaunchAgent(plan).value().find("SMELTR_SOCKET"), std::string::npos);
}

TEST(Service, LineBreaksCannotAddLines) {
  ServicePlan plan = Plan();
  plan.home = "/a\nExecStartPre=/bin/evil";
  EXPECT_EQ(SystemdUnit(plan).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(LaunchAgent(plan).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Service, KnowsWhoseHomeAFileServes) {
  for (const std::string home : {"/home/a", "/home/a b", "/home/<x>%\""}) {
    ServicePlan plan = Plan();
    plan.home = home;
    EXPECT_TRUE(ServesHome(SystemdUnit(plan).value(), home)) << home;
    EXPECT_TRUE(ServesHome(LaunchAgent(plan).value(), home)) << home;
    EXPECT_FALSE(ServesHome(SystemdUnit(plan).value(), "/home")) << home;
    EXPECT_FALSE(ServesHome(LaunchAgent(plan).value(), "/home")) << home;
  }
  EXPECT_FALSE(ServesHome("", "/home/a"));
}

// --- with a systemctl of the test's ---

class SystemctlTest : public fake::ScratchTest {
 protected:
  SystemctlTest() {
    SetEnv("XDG_CONFIG_HOME", scratch() / "config");
    std::filesystem::create_directory(scratch() / "bin");
    SetEnv("PATH", scratch() / "bin:/bin:/usr/bin");
  }
  // Notes what it is called with, then does what `script` says.
  void MakeSystemctl(const std::string& script) const {
    const auto file = scratch() / "bin" / "systemctl";
    std::ofstream(file) << "#!/bin/sh\necho \"$@\" >> " << (scratch() / "calls").native() << "\n" << script;
    std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  }
  std::string Calls() const { return ReadFile(scratch() / "calls").value_or(""); }
};

TEST_F(SystemctlTest, InstallWritesReloadsEnablesRestarts) {
  MakeSystemctl("exit 0\n");
  ASSERT_TRUE(InstallService(Plan()).has_value());
  const auto file = scratch() / "config/systemd/user/smeltrd.service";
  EXPECT_EQ(ServiceFile().value(), file);
  EXPECT_EQ(ReadFile(file).value(), SystemdUnit(Plan()).value());
  EXPECT_EQ(Calls(),
            "--user show-environment\n--user daemon-reload\n--user enable smeltrd.service\n"
            "--user restart smeltrd.service\n");
  EXPECT_TRUE(IsInstalledFor("/home/a%b"));
  EXPECT_FALSE(IsInstalledFor("/home/other"));

  ASSERT_TRUE(UninstallService().has_value());
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_NE(Calls().find("--user disable --now smeltrd.service\n"), std::string::npos);
  EXPECT_EQ(UninstallService().error().code(), ErrorCode::kNotFound);
}

TEST_F(SystemctlTest, WithoutAManagerNothingIsWritten) {
  MakeSystemctl("echo 'Failed to connect to bus: No medium found' >&2\nexit 1\n");
  const auto installed = InstallService(Plan());
  ASSERT_FALSE(installed.has_value());
  EXPECT_EQ(installed.error().code(), ErrorCode::kUnsupported);
  EXPECT_EQ(installed.error().text(), "no systemd user manager: Failed to connect to bus: No medium found");
  EXPECT_FALSE(std::filesystem::exists(scratch() / "config"));
}

TEST_F(SystemctlTest, FailuresSayWhatFailed) {
  MakeSystemctl("case \"$2\" in restart) echo 'Job failed.'; exit 1;; esac\n");
  const auto installed = InstallService(Plan());
  ASSERT_FALSE(installed.has_value());
  EXPECT_EQ(installed.error().text(), "`systemctl --user restart smeltrd.service` failed: Job failed.");
}

// --- tools ---

TEST(RunTool, TellsStatusAndOutput) {
  const ToolResult result = RunTool({"sh", "-c", "echo out; echo err >&2; exit 3"}, 30'000).value();
  EXPECT_EQ(result.status, 3);
  EXPECT_EQ(result.output, "out\nerr\n");
  EXPECT_EQ(RunTool({"sh", "-c", "kill -9 $$"}, 30'000)->status, 137);
  EXPECT_EQ(RunTool({"no-such-tool-at-all"}, 30'000).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(RunTool({"cat"}, 30'000)->output, "");
}

TEST(RunTool, WaitsForTheToolNotForWhatItLeavesBehind) {
  const ToolResult result = RunTool({"sh", "-c", "sleep 1000 & echo $!"}, 600'000).value();
  EXPECT_EQ(result.status, 0);
  ::kill(std::stoi(result.output), SIGKILL);
}

TEST(RunTool, OutputIsBounded) {
  EXPECT_LE(RunTool({"head", "-c", "1000000", "/dev/zero"}, 30'000)->output.size(), 64U << 10);
}

TEST(RunTool, TheHangingIsKilled) {
  EXPECT_EQ(RunTool({"sleep", "1000"}, 50).error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace smeltr::launch
