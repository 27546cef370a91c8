#include "session/recover.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "base/clock.h"
#include "session/identity.h"
#include "session/writer.h"
#include "unit/session/temporary_directory.h"
#include "util/file.h"
#include "util/log.h"
#include "util/process.h"

namespace smeltr::session {
namespace {

using testing::TemporaryDirectory;

constexpr uint64_t kWallNs = 1'772'373'909 * kNsPerSecond;  // 2026-03-01T14:05:09Z

class RecoverTest : public ::testing::Test {
 protected:
  RecoverTest() { SetLogLevel(LogLevel::kNothing); }
  ~RecoverTest() override { SetLogLevel(LogLevel::kInfo); }

  // A session with an events file; closed with an end, or cut off.
  std::filesystem::path Make(const std::vector<event::Payload>& payloads, bool close) {
    auto stored = CreateSession(sessions_, {});
    EXPECT_TRUE(stored.has_value());
    auto writer = Writer::Create(stored->directory / kEventsFile, {});
    EXPECT_TRUE(writer.has_value());
    uint64_t ts_ns = 100;
    writer->Append({{.ts_ns = ts_ns}, event::SessionStarted{.wall_unix_ns = kWallNs}});
    for (const event::Payload& payload : payloads) {
      const auto api =
          std::holds_alternative<event::CbCommitted>(payload) ? event::Api::kVulkan : event::Api::kNone;
      writer->Append(
          {{.ts_ns = ++ts_ns, .pid = 40 + static_cast<uint32_t>(ts_ns - 101), .api = api}, payload});
    }
    if (close) {
      writer->Append({{.ts_ns = ++ts_ns},
                      event::SessionEnded{.wall_unix_ns = kWallNs + 60 * kNsPerSecond, .reason = "exit"}});
      EXPECT_TRUE(writer->Close().has_value());
    } else {
      EXPECT_TRUE(writer->Flush().has_value());
    }
    last_ = stored->metadata;
    return stored->directory;
  }
  static void Spoil(const std::filesystem::path& directory) {
    std::ofstream(directory / kMetadataFile) << "session_id = \"abc\nkind";
  }
  std::vector<StoredSession> Recover(const std::vector<std::string>& known_ids = {}) {
    auto recovered = RecoverMetadata(sessions_, known_ids);
    EXPECT_TRUE(recovered.has_value());
    return recovered.value_or(std::vector<StoredSession>());
  }

  TemporaryDirectory directory_;
  std::filesystem::path sessions_ = directory_.path() / "sessions";
  Metadata last_;
};

TEST_F(RecoverTest, MetadataIsMadeAnewFromEventsAndName) {
  const auto directory =
      Make({event::HookHello{.executable = "/bin/train", .start_time_ticks = 77},
            event::ProcessSeen{.start_time_ticks = 88, .executable = "/bin/worker"}, event::CbCommitted{}},
           false);
  Spoil(directory);
  const std::string events = ReadFile(directory / kEventsFile).value();
  ASSERT_EQ(Recover().size(), 1U);
  const auto metadata = ReadMetadata(directory);
  ASSERT_TRUE(metadata.has_value());
  EXPECT_TRUE(NormaliseUuid(metadata->session_id).has_value()) << metadata->session_id;
  EXPECT_TRUE(directory.filename().native().ends_with(ShortId(*metadata)));
  EXPECT_EQ(metadata->kind, SessionKind::kScoped);
  EXPECT_EQ(metadata->started_rfc3339, "2026-03-01T14:05:09.000Z");
  EXPECT_EQ(metadata->start_mono_ns, 100U);
  EXPECT_EQ(metadata->end_reason, "recovered");
  EXPECT_FALSE(metadata->ended_rfc3339.empty());
  EXPECT_EQ(metadata->root_pid, 40U);
  EXPECT_EQ(metadata->root_start_time_ticks, 77U);
  EXPECT_EQ(metadata->argv, std::vector<std::string>{"/bin/train"});
  EXPECT_EQ(metadata->hook_state, "injected");
  EXPECT_EQ(metadata->event_counts.at("VulkanCbCommitted"), 1U);
  EXPECT_EQ(ReadFile(directory / kEventsFile).value(), events) << "events are never rewritten";
  EXPECT_NE(ReadFile(directory / kBadMetadataFile).value_or("").find("abc"), std::string::npos);
  EXPECT_TRUE(Recover().empty()) << "once";
}

TEST_F(RecoverTest, AnEndThatWasWrittenIsKept) {
  const auto directory = Make({event::CbCommitted{}}, true);
  std::filesystem::remove(directory / kMetadataFile);
  ASSERT_EQ(Recover().size(), 1U);
  EXPECT_EQ(ReadMetadata(directory)->ended_rfc3339, "2026-03-01T14:06:09.000Z");
  EXPECT_FALSE(std::filesystem::exists(directory / kBadMetadataFile));
}

TEST_F(RecoverTest, ASessionWithRingsStaysOpenUnderItsOwnId) {
  const auto directory = Make({event::HookHello{}}, false);
  const std::string id = last_.session_id;
  Spoil(directory);
  ASSERT_EQ(Recover({"00000000-1111-4111-8111-111111111111", id}).size(), 1U);
  const auto metadata = ReadMetadata(directory);
  EXPECT_EQ(metadata->session_id, id);
  EXPECT_TRUE(metadata->ended_rfc3339.empty());
  EXPECT_TRUE(metadata->end_reason.empty());
  EXPECT_EQ(metadata->boot_id, BootId());
}

TEST_F(RecoverTest, WithoutProgramsItWasTheMachinesSession) {
  const auto directory = Make({event::VmSample{}}, false);
  Spoil(directory);
  ASSERT_EQ(Recover().size(), 1U);
  EXPECT_EQ(ReadMetadata(directory)->kind, SessionKind::kAmbient);
}

TEST_F(RecoverTest, DamagedEventsAndPostMortemsToo) {
  const auto damaged = Make({}, false);
  std::ofstream(damaged / kEventsFile) << "rubbish";
  Spoil(damaged);
  const auto post_mortem = CreatePostMortem(sessions_, "crash", {})->directory;
  Spoil(post_mortem);
  ASSERT_EQ(Recover().size(), 2U);
  EXPECT_EQ(ReadMetadata(damaged)->started_rfc3339, InstantOfDirectoryName(damaged.filename().native()));
  EXPECT_EQ(ReadMetadata(post_mortem)->kind, SessionKind::kPostMortem);
}

TEST_F(RecoverTest, WhatIsNotOursOrWholeIsLeftAlone) {
  const auto whole = Make({}, true);
  const std::string before = ReadFile(whole / kMetadataFile).value();
  const auto foreign = sessions_ / "notes";
  std::filesystem::create_directory(foreign);
  std::ofstream(foreign / kMetadataFile) << "not [toml";
  const auto elsewhere = Make({}, false);
  std::filesystem::rename(elsewhere, directory_.path() / "elsewhere");
  Spoil(directory_.path() / "elsewhere");
  std::filesystem::create_directory_symlink(directory_.path() / "elsewhere", elsewhere);
  EXPECT_TRUE(Recover().empty());
  EXPECT_EQ(ReadFile(whole / kMetadataFile).value(), before);
  EXPECT_EQ(ReadFile(foreign / kMetadataFile).value(), "not [toml");
  EXPECT_FALSE(std::filesystem::exists(elsewhere / kBadMetadataFile));
  EXPECT_TRUE(RecoverMetadata(directory_.path() / "none", {})->empty());
}

}  // namespace
}  // namespace smeltr::session
