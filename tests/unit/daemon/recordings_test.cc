#include "daemon/recordings.h"

#include <fstream>
#include <optional>

#include "fake/scratch.h"
#include "session/reader.h"
#include "unit/daemon/log_context.h"
#include "unit/daemon/rings.h"
#include "util/process.h"

namespace smeltr::daemon {
namespace {

constexpr uint64_t kMs = 1'000'000;
constexpr const char* kId = "0a1b2c3d-0000-4000-8000-000000000001";
constexpr const char* kOtherId = "0a1b2c3d-0000-4000-8000-000000000002";
constexpr const char* kIdDirectory = "2026-01-01-000000-0a1b2c3d";

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
  EXPECT_EQ(finished_->event_count, 6U);
  EXPECT_EQ(MetadataOf(session).exit_code, 3);
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

// --- the tree of processes ---
constexpr uint32_t kRoot = 4'000'001;  // More than the system gives: nobody by chance.
constexpr uint32_t kChild = 4'000'002;
constexpr uint32_t kGrandchild = 4'000'003;

probe::ProcessEntry Process(uint32_t pid, uint32_t parent_pid, const char* name) {
  probe::ProcessEntry process;
  process.pid = pid;
  process.parent_pid = parent_pid;
  process.start_time_ticks = 100 + pid;
  process.state = 'S';
  process.thread_count = 1;
  process.name = name;
  return process;
}

class TreeTest : public RecordingsTest {
 protected:
  ipc::Reserved Begin() {
    ipc::Reserved session = Reserve();
    processes_ = {Process(1, 0, "init"), Process(kRoot, 1, "root"), Process(kChild, kRoot, "child")};
    ipc::Attach attach;
    attach.session_id = session.session_id;
    attach.pid = kRoot;
    attach.start_time_ticks = 100 + kRoot;
    attach.hook_state = "skipped";
    EXPECT_TRUE(recordings_->Attach(attach).has_value());
    PollAfter(1100 * kMs);
    return session;
  }
  void Remove(uint32_t pid) {
    std::erase_if(processes_, [pid](const probe::ProcessEntry& process) { return process.pid == pid; });
  }
};

TEST_F(TreeTest, MembersAreToldOfAsTheyComeAndGo) {
  const ipc::Reserved session = Begin();
  processes_.push_back(Process(kGrandchild, kChild, "grandchild"));
  PollAfter(1100 * kMs);
  Remove(kGrandchild);
  Remove(kChild);
  PollAfter(1100 * kMs);
  Remove(kRoot);
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  ASSERT_TRUE(finished_.has_value());
  EXPECT_EQ(recordings_->open_count(), 0U);
  const session::Metadata metadata = MetadataOf(session);
  EXPECT_EQ(metadata.event_counts.at("ProcessSeen"), 3U);
  EXPECT_EQ(metadata.event_counts.at("ProcessExit"), 3U) << "the root's is told by its record, once";
}

TEST_F(TreeTest, DaemonisedGrandchildKeepsTheSessionOpenWithoutARing) {
  const ipc::Reserved session = Begin();
  processes_.push_back(Process(kGrandchild, kChild, "background"));
  PollAfter(1100 * kMs);
  Remove(kRoot);
  Remove(kChild);
  processes_.back().parent_pid = 1;
  ASSERT_TRUE(Finish(session).has_value());
  PollAfter(50 * kMs);
  EXPECT_FALSE(finished_.has_value()) << "those who die together get a moment";
  PollAfter(300 * kMs);
  ASSERT_TRUE(finished_.has_value());
  EXPECT_EQ(finished_->live_process_count, 1U);
  EXPECT_EQ(recordings_->open_count(), 1U);
  EXPECT_TRUE(recordings_->Find(session.session_id)->IsMember(kGrandchild));
  EXPECT_FALSE(recordings_->Find(session.session_id)->IsMember(1));
  Remove(kGrandchild);
  PollAfter(1100 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_EQ(MetadataOf(session).end_reason, "exit");
}

TEST_F(TreeTest, ShutdownLeavesWhatStillRunsToTheNextDaemon) {
  const ipc::Reserved session = Begin();
  recordings_->Shutdown(MonotonicNowNs() + 5000 * kMs);
  EXPECT_EQ(MetadataOf(session).end_reason, "daemon-shutdown");
  EXPECT_EQ(MetadataOf(session).ended_rfc3339, "") << "not over";
  EXPECT_TRUE(std::filesystem::exists(session.ring_directory));
  Restart();
  recordings_->AdoptUnfinished();
  EXPECT_EQ(recordings_->open_count(), 1U);
  ASSERT_TRUE(recordings_->Resume({session.session_id}, 5).has_value());
  PollAfter(3000 * kMs);
  EXPECT_EQ(recordings_->open_count(), 1U) << "its record is there again";
  processes_.clear();
  ASSERT_TRUE(Finish(session).has_value());
  Poll();
  EXPECT_EQ(recordings_->open_count(), 0U);
  EXPECT_EQ(MetadataOf(session).exit_code, 3);
}

TEST_F(TreeTest, CrashLeavesTheSessionOpenForLateReports) {
  const ipc::Reserved session = Begin();
  processes_.clear();
  ipc::Finish finish;
  finish.session_id = session.session_id;
  finish.term_signal = 11;
  ASSERT_TRUE(recordings_->Finish(finish, now_ns_, [this](const ipc::Finished& reply) { finished_ = reply; })
                  .has_value());
  PollAfter(50 * kMs);
  EXPECT_TRUE(finished_.has_value()) << "record does not wait for them";
  EXPECT_EQ(recordings_->open_count(), 1U);
  EXPECT_EQ(MetadataOf(session).term_signal, 11);
  PollAfter(2100 * kMs);
  EXPECT_EQ(recordings_->open_count(), 0U);
}

}  // namespace
}  // namespace smeltr::daemon
