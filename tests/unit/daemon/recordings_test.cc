#include "session/reader.h"
#include "unit/daemon/recordings_fixture.h"

namespace smeltr::daemon {
namespace {

constexpr const char* kId = "0a1b2c3d-0000-4000-8000-000000000001";
constexpr const char* kOtherId = "0a1b2c3d-0000-4000-8000-000000000002";
constexpr const char* kIdDirectory = "2026-01-01-000000-0a1b2c3d";

TEST_F(RecordingsTest, FromReservationToTheEnd) {
  const ipc::Reserved session = Reserve();
  EXPECT_TRUE(std::filesystem::is_directory(session.ring_directory));
  RingProcess process(session.ring_directory, [](ring::Writer& writer) {
    WriteMarks(writer, 100);
    writer.CountDropped(event::Kind::kMark, 2);
  });
  ASSERT_TRUE(Attach(session, process.pid()).has_value());
  EXPECT_EQ(MetadataOf(session).root_pid, process.pid());
  Poll();
  process.End();
  ASSERT_TRUE(Finish(session).has_value());
  EXPECT_FALSE(finished_.has_value()) << "answered before the drain";
  Poll();
  ASSERT_TRUE(finished_.has_value());
  EXPECT_EQ(finished_->event_count, 100U);
  EXPECT_EQ(finished_->dropped_count, 2U);
  EXPECT_TRUE(finished_->drained);
  EXPECT_EQ(finished_->live_process_count, 0U);
  EXPECT_EQ(finished_->hook_state, "injected");
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_FALSE(std::filesystem::exists(session.ring_directory));

  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.end_reason, "exit");
  EXPECT_EQ(metadata.exit_code, 3);
  EXPECT_FALSE(metadata.ended_rfc3339.empty());
  EXPECT_EQ(metadata.argv, (std::vector<std::string>{"prog", "-x"}));
  EXPECT_EQ(metadata.cwd, "/w");
  EXPECT_EQ(metadata.dropped_counts, (std::map<std::string, uint64_t>{{"Mark", 2}}));
  EXPECT_EQ(metadata.event_counts, (std::map<std::string, uint64_t>{{"HookDropped", 1},
                                                                    {"Mark", 100},
                                                                    {"ProcessExit", 1},
                                                                    {"ProcessSeen", 1},
                                                                    {"SessionEnded", 1},
                                                                    {"SessionStarted", 1}}));
  const auto reader =
      session::Reader::Open(std::filesystem::path(session.session_directory) / session::kEventsFile);
  ASSERT_TRUE(reader.has_value());
  EXPECT_EQ(reader->summary().event_count, 105U);
  EXPECT_FALSE(reader->damage().no_footer);
}

TEST_F(RecordingsTest, OneTokenOneSession) {
  Reserve("a");
  ipc::Reserve again;
  again.token = "a";
  again.argv = {"x"};
  EXPECT_EQ(recordings_->Reserve(again, 2).error().code(), ErrorCode::kAlreadyExists);
  again.token = "b";
  again.name = "a/b";
  EXPECT_EQ(recordings_->Reserve(again, 2).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(recordings_->open_count(), 1U);
}

TEST_F(RecordingsTest, RequestsOutOfOrderAreRefused) {
  const ipc::Reserved session = Reserve();
  EXPECT_EQ(Finish(session).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Attach(session, 0).error().code(), ErrorCode::kInvalidArgument);
  RingProcess process(session.ring_directory, [](ring::Writer&) {});
  ASSERT_TRUE(Attach(session, process.pid()).has_value());
  EXPECT_EQ(Attach(session, process.pid()).error().code(), ErrorCode::kAlreadyExists);
  ASSERT_TRUE(Finish(session).has_value());
  EXPECT_EQ(Finish(session).error().code(), ErrorCode::kAlreadyExists);
  ipc::Reserved unknown;
  unknown.session_id = "nothing";
  EXPECT_EQ(Finish(unknown).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Attach(unknown, 1).error().code(), ErrorCode::kNotFound);
}

TEST_F(RecordingsTest, CanceledSessionLeavesNothing) {
  const ipc::Reserved session = Reserve();
  ASSERT_TRUE(recordings_->Cancel({session.session_id}).has_value());
  EXPECT_FALSE(std::filesystem::exists(session.session_directory));
  EXPECT_FALSE(std::filesystem::exists(session.ring_directory));
  EXPECT_EQ(recordings_->open_count(), 0U);
}

TEST_F(RecordingsTest, LostClientBeforeTheProgramRanLeavesNothing) {
  const ipc::Reserved mine = Reserve("a", 1);
  const ipc::Reserved other = Reserve("b", 2);
  recordings_->ClientLost(1);
  EXPECT_FALSE(std::filesystem::exists(mine.session_directory));
  EXPECT_TRUE(std::filesystem::exists(other.session_directory));
}

TEST_F(RecordingsTest, LostClientKeepsTheSessionUntilTheProgramEnds) {
  const ipc::Reserved session = Reserve();
  RingProcess process(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 4); });
  ASSERT_TRUE(Attach(session, process.pid()).has_value());
  recordings_->ClientLost(1);
  PollAfter(1000 * kMs);
  EXPECT_EQ(recordings_->open_count(), 1U);
  process.End();
  PollAfter(1000 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.end_reason, "client-lost");
  EXPECT_EQ(metadata.exit_code, std::nullopt);
  EXPECT_EQ(metadata.event_counts.at("Mark"), 4U);
}

TEST_F(RecordingsTest, SilentHookIsMarked) {
  const ipc::Reserved session = Reserve();
  ASSERT_TRUE(Attach(session, 1).has_value());
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  EXPECT_EQ(finished_->hook_state, "requested-but-silent");
  EXPECT_EQ(MetadataOf(session).hook_state, "requested-but-silent");
  EXPECT_EQ(MetadataOf(session).event_counts.at("HookSilent"), 1U);
}

TEST_F(RecordingsTest, ProgramsWithoutARingAreTold) {
  const ipc::Reserved session = Reserve();
  ASSERT_TRUE(Attach(session, 1).has_value());
  ring::LeaveFailure(session.ring_directory.c_str(), ErrorCode::kNoSpace);
  Poll();
  ring::LeaveFailure(session.ring_directory.c_str(), ErrorCode::kUnavailable);
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  EXPECT_EQ(finished_->failed_ring_count, 2U);
  EXPECT_NE(finished_->ring_failure.find("ulimit -f"), std::string::npos) << finished_->ring_failure;
  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.hook_reason, finished_->ring_failure);
  EXPECT_EQ(metadata.event_counts.at("HookSilent"), 2U);
}

// No list of processes has it; its ring was there.
TEST_F(RecordingsTest, EndOfAShortLivedProcessIsTold) {
  const ipc::Reserved session = Reserve();
  ASSERT_TRUE(Attach(session, 1).has_value());
  for (int i = 0; i < 3; ++i) {
    RingProcess brief(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 1); });
    PollAfter(10 * kMs);
  }
  PollAfter(2000 * kMs);
  PollAfter(2000 * kMs);
  RingProcess last(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 1); });
  PollAfter(10 * kMs);
  last.End();
  ASSERT_TRUE(Finish(session).has_value());
  PollAfter(300 * kMs);
  ASSERT_EQ(recordings_->open_count(), 0U);
  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.event_counts.at("ProcessSeen"), 4U);
  EXPECT_EQ(metadata.event_counts.at("ProcessExit"), 5U) << "the recorded program's among them";
}

TEST_F(RecordingsTest, DescendantsKeepTheSessionOpen) {
  const ipc::Reserved session = Reserve();
  RingProcess root(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 1); });
  RingProcess child(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 10); });
  ASSERT_TRUE(Attach(session, root.pid()).has_value());
  root.End();
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  EXPECT_FALSE(finished_.has_value()) << "those who die together get a moment";
  PollAfter(300 * kMs);
  ASSERT_TRUE(finished_.has_value());
  EXPECT_EQ(finished_->live_process_count, 1U);
  EXPECT_TRUE(finished_->drained);
  EXPECT_EQ(recordings_->open_count(), 1U);
  EXPECT_EQ(MetadataOf(session).exit_code, 3) << "known before the session ends";
  EXPECT_EQ(MetadataOf(session).ended_rfc3339, "");
  child.End();
  PollAfter(300 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_EQ(MetadataOf(session).event_counts.at("Mark"), 11U);
  EXPECT_EQ(MetadataOf(session).end_reason, "exit");
}

TEST_F(RecordingsTest, ShutdownCompletesEverything) {
  const ipc::Reserved session = Reserve();
  RingProcess process(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 9); });
  ASSERT_TRUE(Attach(session, process.pid()).has_value());
  recordings_->Shutdown(MonotonicNowNs() + 5000 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_EQ(MetadataOf(session).end_reason, "daemon-shutdown");
  EXPECT_EQ(MetadataOf(session).ended_rfc3339, "") << "its program still runs";
  EXPECT_EQ(MetadataOf(session).event_counts.at("Mark"), 9U);
}

TEST_F(RecordingsTest, NextDaemonRecoversWhatTheDeadOneLeft) {
  const ipc::Reserved session = Reserve();
  {
    RingProcess process(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 6); });
    ASSERT_TRUE(Attach(session, process.pid()).has_value());
  }
  Restart();
  recordings_->AdoptUnfinished();
  EXPECT_EQ(recordings_->open_count(), 1U);
  PollAfter(1 * kMs);
  EXPECT_EQ(recordings_->open_count(), 1U) << "its record may still call";
  PollAfter(3000 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.end_reason, "recovered");
  EXPECT_EQ(metadata.event_counts.at("Mark"), 6U);
  EXPECT_EQ(metadata.event_counts.at("SessionResumed"), 1U);
  EXPECT_FALSE(std::filesystem::exists(session.ring_directory));
  const auto rest = session::Reader::Open(std::filesystem::path(session.session_directory) / "events-1.smlt");
  ASSERT_TRUE(rest.has_value()) << rest.error().text();
  EXPECT_EQ(rest->summary().event_count, 9U);
}

TEST_F(RecordingsTest, RecoveryWithoutLeftoversMakesNoSecondFile) {
  const ipc::Reserved session = Reserve();
  ASSERT_TRUE(Attach(session, 1).has_value());
  std::filesystem::remove_all(session.ring_directory);
  {
    RingProcess process(scratch(), [](ring::Writer&) {});
    session::Metadata metadata = MetadataOf(session);
    metadata.root_pid = process.pid();
    ASSERT_TRUE(session::WriteMetadata(session.session_directory, metadata).has_value());
  }
  Restart();
  recordings_->AdoptUnfinished();
  PollAfter(3000 * kMs);
  EXPECT_EQ(MetadataOf(session).end_reason, "recovered");
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(session.session_directory) / "events-1.smlt"));
}

TEST_F(RecordingsTest, RecordThatFindsTheNextDaemonFinishesProperly) {
  const ipc::Reserved session = Reserve();
  {
    RingProcess process(session.ring_directory, [](ring::Writer& writer) { WriteMarks(writer, 6); });
    ASSERT_TRUE(Attach(session, process.pid()).has_value());
  }
  Restart();
  recordings_->AdoptUnfinished();
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  ASSERT_TRUE(finished_.has_value());
  EXPECT_GE(finished_->event_count, 6U) << "and those of the daemons";
  EXPECT_EQ(MetadataOf(session).exit_code, 3);
}

// Of the daemon of a home that was moved away, say.
TEST_F(RecordingsTest, StrayRingsOfARunningProcessAreLeftAlone) {
  const auto rings = MakeRings() / kOtherId;
  std::filesystem::create_directories(rings);
  RingProcess process(rings, [](ring::Writer& writer) { WriteMarks(writer, 1); });
  Restart();
  recordings_->AdoptUnfinished();
  EXPECT_FALSE(std::filesystem::is_empty(rings));
  process.End();
  Restart();
  recordings_->AdoptUnfinished();
  EXPECT_FALSE(std::filesystem::exists(rings));
}

TEST_F(RecordingsTest, PeriodsBeyondAllReasonAreNotTaken) {
  ipc::Reserve request;
  request.token = "t";
  request.argv = {"prog"};
  request.footprint_period_ms = 76'480'200'929'599'801;
  const auto session = recordings_->Reserve(request, 1);
  ASSERT_TRUE(session.has_value());
  ASSERT_TRUE(Attach(*session, static_cast<uint32_t>(::getpid())).has_value());
  ASSERT_EQ(recordings_->Recorded().size(), 1U);
  EXPECT_GE(recordings_->Recorded()[0].footprint_period_ns, 3600 * kNsPerSecond);
}

TEST_F(RecordingsTest, RecoveryRemovesStrayRingsAndSurvivesBadSessions) {
  const auto stray = MakeRings() / kOtherId;
  std::filesystem::create_directories(stray / "deep" / "deeper");
  std::ofstream(stray / "1-2.ring") << "x";
  const auto precious = MakePrecious(scratch() / "elsewhere");
  std::filesystem::create_directory_symlink(scratch() / "elsewhere", stray / "link");
  std::filesystem::create_directories(paths_.run / "rings" / "no-session");
  std::filesystem::create_directories(paths_.sessions / "2025-01-01-000000-deadbeef");
  const ipc::Reserved session = Reserve();
  ASSERT_TRUE(Attach(session, 1).has_value());
  Restart();
  recordings_->AdoptUnfinished();
  EXPECT_FALSE(std::filesystem::exists(stray));
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_TRUE(std::filesystem::exists(paths_.run / "rings" / "no-session"));
  EXPECT_TRUE(std::filesystem::exists(session.ring_directory));
  EXPECT_EQ(recordings_->open_count(), 1U);
}

TEST_F(RecordingsTest, MetadataCannotNameWhatIsDeleted) {
  const auto outside = MakePrecious(scratch() / "outside");
  const auto in_base = MakePrecious(MakeRings() / "mine");
  const auto beside = MakePrecious(paths_.run / kOtherId);
  int number = 0;
  for (const std::string& id : {(scratch() / "outside").native(), std::string("../../outside"), std::string(),
                                std::string("."), std::string("mine"), std::string("../") + kOtherId,
                                std::string("0A1B2C3D-0000-4000-8000-000000000001"),
                                std::string("0a1b2c3d000040008000000000000001")}) {
    Leave("2026-01-01-00000" + std::to_string(number++) + "-0a1b2c3d", id);
  }
  RunToTheEnd();
  EXPECT_TRUE(std::filesystem::exists(outside));
  EXPECT_TRUE(std::filesystem::exists(in_base));
  EXPECT_TRUE(std::filesystem::exists(beside));
  for (const auto& entry : std::filesystem::directory_iterator(paths_.sessions)) {
    EXPECT_EQ(session::ReadMetadata(entry.path())->ended_rfc3339, "") << "touched a session without an id";
  }
}

TEST_F(RecordingsTest, SessionsOfAnotherBootOrPlaceEndWithoutTheirRings) {
  const auto rings = MakeRings();
  const auto other_boot = Leave(kIdDirectory, kId, "another-boot");
  const auto renamed = Leave("renamed", "1a1b2c3d-0000-4000-8000-000000000001");
  Restart();
  recordings_->AdoptUnfinished();
  EXPECT_EQ(recordings_->open_count(), 0U);
  for (const auto& directory : {other_boot, renamed}) {
    EXPECT_EQ(session::ReadMetadata(directory)->end_reason, "recovered") << directory;
    EXPECT_NE(session::ReadMetadata(directory)->ended_rfc3339, "");
  }
  EXPECT_TRUE(std::filesystem::exists(rings));
}

TEST_F(RecordingsTest, LinkedSessionsAreLeftAlone) {
  const auto real = Leave(kIdDirectory, kId, "another-boot");
  std::filesystem::rename(real, scratch() / "moved");
  std::filesystem::create_directory_symlink(scratch() / "moved", real);
  RunToTheEnd();
  EXPECT_EQ(session::ReadMetadata(scratch() / "moved")->ended_rfc3339, "");
}

TEST_F(RecordingsTest, RingBaseThatIsALinkIsNotCleaned) {
  const auto precious = MakePrecious(scratch() / "elsewhere" / kOtherId);
  std::filesystem::create_directories(paths_.run);
  std::filesystem::create_directory_symlink(scratch() / "elsewhere", paths_.run / "rings");
  Leave(kIdDirectory, kId);
  MakePrecious(scratch() / "elsewhere" / kId);
  RunToTheEnd();
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_TRUE(std::filesystem::exists(scratch() / "elsewhere" / kId / "precious"));
}

TEST_F(RecordingsTest, RingBaseThatOthersCanWriteIsNotCleaned) {
  const auto precious = MakePrecious(MakeRings() / kOtherId);
  std::filesystem::permissions(paths_.run / "rings", std::filesystem::perms(0770));
  RunToTheEnd();
  EXPECT_TRUE(std::filesystem::exists(precious));
}

TEST_F(RecordingsTest, LinksInTheRingBaseAreNotFollowed) {
  const auto precious = MakePrecious(scratch() / "elsewhere");
  const auto other = MakePrecious(scratch() / "other");
  std::filesystem::create_directory_symlink(scratch() / "elsewhere", MakeRings() / kOtherId);
  std::filesystem::create_directory_symlink(scratch() / "other", MakeRings() / kId);
  Leave(kIdDirectory, kId);
  RunToTheEnd();
  EXPECT_TRUE(std::filesystem::exists(precious));
  EXPECT_TRUE(std::filesystem::exists(other));
  EXPECT_TRUE(std::filesystem::is_symlink(paths_.run / "rings" / kOtherId)) << "no directory, so not a stray";
  EXPECT_EQ(session::ReadMetadata(paths_.sessions / kIdDirectory)->end_reason, "recovered");
}

}  // namespace
}  // namespace smeltr::daemon
