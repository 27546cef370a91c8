// Recordings in a home of their own, with a machine's processes and clock set by hand.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "daemon/recordings.h"
#include "fake/scratch.h"
#include "unit/daemon/log_context.h"
#include "unit/daemon/rings.h"
#include "util/process.h"

namespace smeltr::daemon {

inline constexpr uint64_t kMs = 1'000'000;

class RecordingsTest : public fake::ScratchTest {
 protected:
  RecordingsTest() {
    SetEnv("SMELTR_HOME", scratch().native());
    SetEnv("SMELTR_SOCKET", std::nullopt);
    SetEnv("XDG_RUNTIME_DIR", std::nullopt);
    SetLogLevel(LogLevel::kNothing);
    paths_ = ResolvePaths().value();
    Restart();
  }
  ~RecordingsTest() override { SetLogLevel(LogLevel::kInfo); }

  // As a daemon that was killed and started again: nothing is closed.
  void Restart() {
    recordings_.reset();
    around_.emplace(paths_.run / "reserve");
    recordings_.emplace(paths_, paths_.run / "rings", around_->context, RecordSettings{},
                        [this] { return processes_; });
  }

  ipc::Reserved Reserve(const std::string& token = "token", ClientId client = 1) {
    ipc::Reserve request;
    request.token = token;
    request.argv = {"prog", "-x"};
    request.cwd = "/w";
    auto reserved = recordings_->Reserve(request, client);
    EXPECT_TRUE(reserved.has_value()) << reserved.error().text();
    return reserved.value_or(ipc::Reserved{});
  }

  Result<void> Attach(const ipc::Reserved& session, uint32_t pid, const std::string& hook = "requested") {
    ipc::Attach attach;
    attach.session_id = session.session_id;
    attach.pid = pid;
    attach.hook_state = hook;
    if (const auto facts = ReadProcessFacts(static_cast<pid_t>(pid)); facts.has_value()) {
      attach.start_time_ticks = facts->start_time_ticks;
    }
    return recordings_->Attach(attach);
  }

  // Asks to finish with exit code 3; the reply goes to finished_.
  Result<void> Finish(const ipc::Reserved& session) {
    ipc::Finish finish;
    finish.session_id = session.session_id;
    finish.exit_code = 3;
    return recordings_->Finish(finish, now_ns_, [this](const ipc::Finished& reply) {
      EXPECT_FALSE(finished_.has_value()) << "answered twice";
      finished_ = reply;
    });
  }

  // Some steps, at one time.
  void Poll() {
    for (int i = 0; i < 5; ++i) recordings_->Poll(now_ns_);
  }
  void PollAfter(uint64_t ns) {
    now_ns_ += ns;
    Poll();
  }

  static session::Metadata MetadataOf(const ipc::Reserved& session) {
    return session::ReadMetadata(session.session_directory).value();
  }

  // An unfinished session as another program may have left it, in a directory of this name.
  std::filesystem::path Leave(const std::string& directory_name, const std::string& session_id,
                              const std::string& boot_id = BootId()) {
    const auto directory = paths_.sessions / directory_name;
    std::filesystem::create_directories(directory);
    session::Metadata metadata;
    metadata.session_id = session_id;
    metadata.boot_id = boot_id;
    metadata.started_rfc3339 = "2026-01-01T00:00:00.000Z";
    EXPECT_TRUE(session::WriteMetadata(directory, metadata).has_value());
    return directory;
  }
  static std::filesystem::path MakePrecious(const std::filesystem::path& directory) {
    std::filesystem::create_directories(directory);
    std::ofstream(directory / "precious") << "x";
    return directory / "precious";
  }
  std::filesystem::path MakeRings() {
    std::filesystem::create_directories(paths_.run / "rings");
    std::filesystem::permissions(paths_.run / "rings", std::filesystem::perms::owner_all);
    return paths_.run / "rings";
  }
  void RunToTheEnd() {
    Restart();
    recordings_->AdoptUnfinished();
    PollAfter(3000 * kMs);
    recordings_->Shutdown(now_ns_);
  }

  Paths paths_;
  std::optional<TestLogContext> around_;
  std::vector<probe::ProcessEntry> processes_;  // Those of the machine.
  std::optional<Recordings> recordings_;
  std::optional<ipc::Finished> finished_;
  uint64_t now_ns_ = MonotonicNowNs();
};

}  // namespace smeltr::daemon
