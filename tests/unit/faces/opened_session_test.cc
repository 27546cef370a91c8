#include "faces/opened_session.h"

#include <gtest/gtest.h>
#include <stdlib.h>
#include <unistd.h>

#include <filesystem>
#include <string>

#include "faces/session_reference.h"
#include "session/open_lock.h"
#include "session/writer.h"
#include "util/process.h"

namespace smeltr::faces {
namespace {

namespace fs = std::filesystem;

class OpenedSessionTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = (fs::temp_directory_path() / "smeltr-faces-XXXXXX").string();
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    home_ = pattern;
  }
  void TearDown() override {
    std::error_code ignored;
    fs::remove_all(home_, ignored);
  }
  session::StoredSession Create(session::Metadata metadata) {
    auto stored = session::CreateSession(home_, std::move(metadata));
    EXPECT_TRUE(stored.has_value());
    return *stored;
  }
  static void Write(const fs::path& file, uint64_t ts_ns) {
    auto writer = session::Writer::Create(file, {});
    ASSERT_TRUE(writer.has_value());
    writer->Append({{.ts_ns = ts_ns, .pid = 1}, event::Mark{.label = "m"}});
    ASSERT_TRUE(writer->Close().has_value());
  }

  fs::path home_;
};

TEST_F(OpenedSessionTest, ContinuationFilesAreOneSession) {
  session::Metadata metadata;
  metadata.end_reason = "recovered";
  const session::StoredSession stored = Create(metadata);
  Write(stored.directory / "events.smlt", 100);
  Write(stored.directory / "events-1.smlt", 700);
  const OpenedSession opened = OpenSession(stored);
  EXPECT_EQ(opened.readers.size(), 2U);
  EXPECT_EQ(opened.event_count(), 2U);
  EXPECT_EQ(opened.duration_ns(), 600U);
  EXPECT_EQ(opened.state, SessionState::kRecovered);
  ASSERT_EQ(opened.counts().size(), 1U);
  EXPECT_EQ(opened.counts()[0].count, 2U);
}

TEST_F(OpenedSessionTest, FilesDeletedFromTheMiddleAreNoDamage) {
  session::Metadata metadata;
  metadata.end_reason = "exit";
  metadata.event_counts = {{"Mark", 10}};
  metadata.max_size_bytes = 1U << 20;
  metadata.trimmed_event_count = 7;
  metadata.trimmed_files = 2;
  const session::StoredSession stored = Create(metadata);
  Write(stored.directory / "events.smlt", 100);
  Write(stored.directory / "events-7.smlt", 700);
  Write(stored.directory / "events-10.smlt", 900);
  const OpenedSession opened = OpenSession(stored);
  EXPECT_EQ(opened.readers.size(), 3U);
  EXPECT_EQ(opened.readers.back().summary().max_ts_ns, 900U);
  EXPECT_TRUE(opened.problems.empty()) << opened.problems.front();
  EXPECT_EQ(LostEvents(opened, {}).trimmed, 7U);
  EXPECT_EQ(TrimmedText(opened),
            "7 events of the middle were deleted to keep the session below 1.0 MiB (--max-size)");
  // What is missing beyond that is.
  std::filesystem::remove(stored.directory / "events-7.smlt");
  EXPECT_EQ(OpenSession(stored).problems.size(), 1U);
  std::filesystem::remove(stored.directory / "events.smlt");
  EXPECT_EQ(OpenSession(stored).problems.size(), 2U) << "the first file is always there";
}

TEST_F(OpenedSessionTest, MissingEventsAreAProblemNotAFailure) {
  const OpenedSession opened = OpenSession(Create({}));
  EXPECT_TRUE(opened.readers.empty());
  EXPECT_EQ(opened.problems.size(), 1U);
  EXPECT_EQ(opened.duration_ns(), 0U);
}

TEST_F(OpenedSessionTest, OpenSessionIsLiveWhileItsDaemonHoldsItElseCutOff) {
  session::Metadata metadata;
  const session::StoredSession stored = Create(metadata);
  {
    const auto lock = session::LockOpen(stored.directory);
    ASSERT_TRUE(lock.has_value());
    EXPECT_EQ(OpenSession(stored).state, SessionState::kLive);
    metadata.ended_rfc3339 = "2026-01-01T00:00:00.000Z";
    metadata.end_reason = "exit";
    EXPECT_EQ(OpenSession({stored.directory, metadata}).state, SessionState::kEnded) << "closed just now";
  }
  EXPECT_EQ(OpenSession(stored).state, SessionState::kCutOff);
}

TEST_F(OpenedSessionTest, WaitsForADaemonWhileItsProgramRuns) {
  session::Metadata metadata;
  metadata.root_pid = static_cast<uint32_t>(::getpid());
  metadata.root_start_time_ticks = ReadProcessFacts(::getpid()).value().start_time_ticks;
  metadata.end_reason = "daemon-shutdown";
  const session::StoredSession stored = Create(metadata);
  EXPECT_EQ(StateOf(stored), SessionState::kWaiting);
  EXPECT_EQ(Name(SessionState::kWaiting), "waiting");
  session::StoredSession other = stored;
  ++other.metadata.root_start_time_ticks;
  EXPECT_EQ(StateOf(other), SessionState::kEnded) << "another process has its pid";
  other = stored;
  other.metadata.ended_rfc3339 = "2026-01-01T00:00:00.000Z";
  EXPECT_EQ(StateOf(other), SessionState::kEnded);
}

TEST_F(OpenedSessionTest, AreFoundByWhereTheyAre) {
  const session::StoredSession stored = Create({});
  const fs::path elsewhere = home_ / "elsewhere";
  fs::create_directories(elsewhere);
  const fs::path copy = elsewhere / stored.directory.filename();
  fs::copy(stored.directory, copy);
  EXPECT_EQ(FindSession(home_, stored.short_id()).value().directory, stored.directory);
  EXPECT_EQ(FindSession(home_, copy.native() + "/").value().directory, copy);
  EXPECT_FALSE(FindSession(home_, elsewhere.native()).has_value());
  EXPECT_FALSE(FindSession(home_, "/no/such/place").has_value());
  // What is elsewhere may be read, not deleted.
  EXPECT_EQ(FindOwnSession(home_, stored.directory.native()).value().directory, stored.directory);
  EXPECT_EQ(FindOwnSession(home_, copy.native()).error().code(), ErrorCode::kInvalidArgument);
}

TEST(Texts, Reason) {
  session::Metadata metadata;
  EXPECT_EQ(ReasonText(metadata), "");
  metadata.triggers = {{"crash", "process 7 ended by SIGSEGV", 1}};
  metadata.trigger_count = 3;
  EXPECT_EQ(ReasonText(metadata), "crash: process 7 ended by SIGSEGV; and 2 more incidents");
  EXPECT_EQ(ShortReason(metadata), "crash");
  metadata.triggers = {{"request", "stutter at level 3", 1}};
  metadata.trigger_count = 1;
  EXPECT_EQ(ReasonText(metadata), "stutter at level 3");
  EXPECT_EQ(ShortReason(metadata), "stutter at level 3");
}

TEST(Texts, ExitAndCommand) {
  session::Metadata metadata;
  EXPECT_EQ(ExitText(metadata), "");
  metadata.exit_code = 3;
  EXPECT_EQ(ExitText(metadata), "exit 3");
  metadata.term_signal = 11;
  metadata.core_dumped = true;
  EXPECT_EQ(ExitText(metadata), "SIGSEGV (core dumped)");

  EXPECT_EQ(CommandText(metadata), "");
  metadata.kind = session::SessionKind::kAmbient;
  EXPECT_EQ(CommandText(metadata), "(ambient)");
  metadata.argv = {"sh", "-c", "it's", ""};
  EXPECT_EQ(CommandText(metadata), "sh -c 'it'\\''s' ''");
}

TEST(Losses, EventsAndMetadataAreNotAddedUp) {
  OpenedSession session;
  session.stored.metadata.dropped_counts = {{"VulkanCbOps", 7}, {"Mark", 3}};
  session.stored.metadata.storage_lost_count = 1;
  analysis::CaptureLoss loss;
  loss.dropped_count = 9;
  loss.storage_lost_count = 4;
  const LostCounts lost = LostEvents(session, loss);
  EXPECT_EQ(lost.dropped, 10U);
  EXPECT_EQ(lost.storage, 4U);
}

}  // namespace
}  // namespace smeltr::faces
