#include "session/retention.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>

#include <chrono>
#include <fstream>

#include "session/identity.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

constexpr uint64_t kDayNs = uint64_t{86'400} * 1'000'000'000;
constexpr uint64_t kNowNs = 20'000 * kDayNs;

KeptSession Kept(uint64_t age_days, uint64_t bytes, SessionKind kind = SessionKind::kScoped) {
  KeptSession session;
  session.stored.metadata.kind = kind;
  session.stored.metadata.started_rfc3339 = FormatUtc(kNowNs - age_days * kDayNs);
  session.stored.metadata.ended_rfc3339 = session.stored.metadata.started_rfc3339;
  session.bytes = bytes;
  session.crashed = kind == SessionKind::kPostMortem;
  return session;
}

// The indices that go, in order.
std::vector<size_t> Plan(const std::vector<KeptSession>& sessions, const RetentionSettings& settings) {
  std::vector<size_t> indices;
  for (const Removal& removal : PlanRemovals(sessions, settings, kNowNs)) indices.push_back(removal.index);
  return indices;
}

RetentionSettings Unlimited() {
  return {.max_total_bytes = 0, .max_age_days = 0, .ambient_days = 0, .max_post_mortems = 0};
}

TEST(PlanRemovals, NothingWithoutLimits) {
  EXPECT_EQ(Plan({Kept(1, 100), Kept(9'000, 1U << 30, SessionKind::kAmbient)}, Unlimited()),
            std::vector<size_t>{});
}

TEST(PlanRemovals, AgeOldestFirst) {
  RetentionSettings settings = Unlimited();
  settings.max_age_days = 30;
  const std::vector<KeptSession> sessions = {Kept(29, 1), Kept(30, 1), Kept(45, 1)};
  const auto removals = PlanRemovals(sessions, settings, kNowNs);
  ASSERT_EQ(removals.size(), 2U);
  EXPECT_EQ(removals[0].index, 2U);
  EXPECT_EQ(removals[1].index, 1U);
  EXPECT_EQ(Describe(removals[0].reason, settings), "older than 30 days");
}

TEST(PlanRemovals, AgeCountsFromTheEnd) {
  RetentionSettings settings = Unlimited();
  settings.max_age_days = 30;
  KeptSession session = Kept(90, 1);
  session.stored.metadata.ended_rfc3339 = FormatUtc(kNowNs - kDayNs);
  EXPECT_EQ(Plan({session}, settings), std::vector<size_t>{});
}

TEST(PlanRemovals, WithoutADateThereIsNoAge) {
  RetentionSettings settings = Unlimited();
  settings.max_age_days = 1;
  KeptSession session = Kept(9, 1);
  session.stored.metadata.started_rfc3339 = "";
  session.stored.metadata.ended_rfc3339 = "nonsense";
  EXPECT_EQ(Plan({session}, settings), std::vector<size_t>{});
  // One from the future, by a clock that was wrong, is young.
  session.stored.metadata.started_rfc3339 = FormatUtc(kNowNs + 90 * kDayNs);
  EXPECT_EQ(Plan({session}, settings), std::vector<size_t>{});
}

TEST(PlanRemovals, AmbientGoesEarlier) {
  RetentionSettings settings = Unlimited();
  settings.ambient_days = 7;
  EXPECT_EQ(
      Plan({Kept(6, 1, SessionKind::kAmbient), Kept(7, 1, SessionKind::kAmbient), Kept(8, 1)}, settings),
      std::vector<size_t>{1});
}

TEST(PlanRemovals, OldestPostMortemsOverTheLimit) {
  RetentionSettings settings = Unlimited();
  settings.max_post_mortems = 2;
  std::vector<KeptSession> sessions;
  for (uint64_t day = 1; day <= 4; ++day) sessions.push_back(Kept(day, 1, SessionKind::kPostMortem));
  sessions.push_back(Kept(9, 1));
  EXPECT_EQ(Plan(sessions, settings), (std::vector<size_t>{3, 2}));
  // A pinned one counts, but stays.
  sessions[3].pinned = true;
  EXPECT_EQ(Plan(sessions, settings), std::vector<size_t>{2});
}

TEST(PlanRemovals, SizeTakesCrashesLastAndStopsInTime) {
  RetentionSettings settings = Unlimited();
  settings.max_total_bytes = 250;
  std::vector<KeptSession> sessions = {Kept(1, 100), Kept(2, 100), Kept(3, 100), Kept(4, 100)};
  sessions[3].crashed = true;
  EXPECT_EQ(Plan(sessions, settings), (std::vector<size_t>{2, 1}));
  settings.max_total_bytes = 100;
  EXPECT_EQ(Plan(sessions, settings), (std::vector<size_t>{2, 1, 0}));
  settings.max_total_bytes = 99;
  EXPECT_EQ(Plan(sessions, settings), (std::vector<size_t>{2, 1, 0, 3}));
  settings.max_total_bytes = 400;
  EXPECT_EQ(Plan(sessions, settings), std::vector<size_t>{});
}

TEST(PlanRemovals, OpenAndPinnedNeverGo) {
  const RetentionSettings settings = {
      .max_total_bytes = 1, .max_age_days = 1, .ambient_days = 1, .max_post_mortems = 1};
  std::vector<KeptSession> sessions = {Kept(50, 100), Kept(60, 100, SessionKind::kAmbient),
                                       Kept(70, 100, SessionKind::kPostMortem)};
  for (KeptSession& session : sessions) session.open = true;
  EXPECT_EQ(Plan(sessions, settings), std::vector<size_t>{});
  for (KeptSession& session : sessions) {
    session.open = false;
    session.pinned = true;
  }
  EXPECT_EQ(Plan(sessions, settings), std::vector<size_t>{});
}

// --- on disk ---

class RetentionOnDisk : public ::testing::Test {
 protected:
  fs::path Make(const std::string& name, uint64_t age_days, std::optional<int> term_signal = std::nullopt) {
    Metadata metadata;
    metadata.name = name;
    metadata.started_rfc3339 = FormatUtc(kNowNs - age_days * kDayNs);
    metadata.ended_rfc3339 = metadata.started_rfc3339;
    metadata.term_signal = term_signal;
    return CreateSession(sessions_, metadata).value().directory;
  }
  KeptSession Find(const std::string& name, const std::set<std::string>& open = {}) const {
    const std::vector<KeptSession> sessions = SurveySessions(sessions_, open).value();
    for (const KeptSession& session : sessions) {
      if (session.stored.metadata.name == name) return session;
    }
    ADD_FAILURE() << name << " is gone";
    return {};
  }

  TemporaryDirectory directory_;
  fs::path sessions_ = directory_.path() / "sessions";
};

TEST_F(RetentionOnDisk, PinsAreFiles) {
  const fs::path session = Make("one", 1);
  EXPECT_FALSE(IsPinned(session));
  ASSERT_TRUE(SetPinned(session, false).has_value());
  ASSERT_TRUE(SetPinned(session, true).has_value());
  ASSERT_TRUE(SetPinned(session, true).has_value());
  EXPECT_TRUE(IsPinned(session));
  EXPECT_TRUE(Find("one").pinned);
  // The daemon's writes do not undo it.
  ASSERT_TRUE(WriteMetadata(session, ReadMetadata(session).value()).has_value());
  EXPECT_TRUE(IsPinned(session));
  ASSERT_TRUE(SetPinned(session, false).has_value());
  EXPECT_FALSE(IsPinned(session));
  EXPECT_FALSE(SetPinned(sessions_ / "none", true).has_value());
}

TEST_F(RetentionOnDisk, EarlierSessionsWaitForTheirImport) {
  const fs::path session = Make("earlier", 900);
  Make("ours", 900);
  std::ofstream(session / "events.cbor.zst") << "events";
  EXPECT_EQ(SurveySessions(sessions_, {}).value().size(), 1U);
  std::ofstream(session / kEventsFile) << "imported";
  EXPECT_EQ(SurveySessions(sessions_, {}).value().size(), 2U);
}

TEST_F(RetentionOnDisk, SizeIsThatOnDisk) {
  const fs::path session = Make("one", 1);
  const uint64_t before = DirectoryBytes(session);
  EXPECT_GE(before, 512U);
  fs::create_directory(session / "more");
  std::ofstream(session / "more" / "file") << std::string(100'000, 'x');
  fs::create_symlink("/usr", session / "link");
  EXPECT_GE(DirectoryBytes(session), before + 100'000);
  EXPECT_LE(DirectoryBytes(session), before + 200'000);
  EXPECT_EQ(DirectoryBytes(sessions_ / "none"), 0U);
}

TEST_F(RetentionOnDisk, CrashesAreKnown) {
  Make("ends", 1);
  Make("interrupted", 1, SIGINT);
  Make("crashes", 1, SIGSEGV);
  Metadata about;
  about.kind = SessionKind::kPostMortem;
  about.name = "dump";
  about.source_session_id = Find("ends").stored.metadata.session_id;
  EXPECT_FALSE(Find("ends").crashed);
  ASSERT_TRUE(CreateSession(sessions_, about).has_value());
  EXPECT_TRUE(Find("ends").crashed);
  EXPECT_TRUE(Find("dump").crashed);
  EXPECT_TRUE(Find("crashes").crashed);
  EXPECT_FALSE(Find("interrupted").crashed);
}

TEST_F(RetentionOnDisk, OpenAreThoseOfTheDaemonAndThoseJustWritten) {
  const fs::path session = Make("one", 1);
  EXPECT_FALSE(Find("one").open);
  EXPECT_TRUE(Find("one", {Find("one").stored.metadata.session_id}).open);
  Metadata metadata = ReadMetadata(session).value();
  metadata.ended_rfc3339.clear();
  ASSERT_TRUE(WriteMetadata(session, metadata).has_value());
  EXPECT_TRUE(Find("one").open);
  fs::last_write_time(session / kMetadataFile, fs::file_time_type::clock::now() - std::chrono::hours(1));
  EXPECT_FALSE(Find("one").open);
}

TEST_F(RetentionOnDisk, RemovesWhatItSaysAndNothingElse) {
  const fs::path old = Make("old", 40);
  const fs::path pinned = Make("pinned", 40);
  Make("young", 2);
  ASSERT_TRUE(SetPinned(pinned, true).has_value());
  fs::create_directory(sessions_ / ".removing-x");
  std::ofstream(sessions_ / ".removing-x" / "file") << "x";
  const RetentionReport report = EnforceRetention(sessions_, {}, {}, kNowNs).value();
  ASSERT_EQ(report.removed.size(), 1U);
  EXPECT_TRUE(report.removed[0].starts_with(old.filename().native() + " (older than 30 days, "));
  EXPECT_TRUE(report.problems.empty());
  EXPECT_GT(report.freed_bytes, 0U);
  EXPECT_EQ(report.kept_bytes, Find("pinned").bytes + Find("young").bytes);
  EXPECT_FALSE(fs::exists(old));
  EXPECT_FALSE(fs::exists(sessions_ / ".removing-x"));
  EXPECT_EQ(SurveySessions(sessions_, {}).value().size(), 2U);
}

TEST_F(RetentionOnDisk, NoHomeIsNothingToDo) {
  EXPECT_TRUE(EnforceRetention(sessions_, {}, {}, kNowNs).value().removed.empty());
}

TEST_F(RetentionOnDisk, RemovalStaysInside) {
  Make("one", 1);
  fs::create_directory(directory_.path() / "outside");
  fs::create_directory_symlink(directory_.path() / "outside", sessions_ / "link");
  for (const std::string name : {"", ".", "..", "../outside", "a/b", "/tmp", ".hidden", "link"}) {
    const auto removed = RemoveSession(sessions_, name, true);
    ASSERT_FALSE(removed.has_value()) << name;
    EXPECT_EQ(removed.error().code(), ErrorCode::kInvalidArgument) << name;
  }
  EXPECT_TRUE(fs::exists(directory_.path() / "outside"));
  EXPECT_EQ(RemoveSession(sessions_, "none", true).error().code(), ErrorCode::kNotFound);
}

TEST_F(RetentionOnDisk, PinnedNeedsForce) {
  const fs::path session = Make("one", 1);
  ASSERT_TRUE(SetPinned(session, true).has_value());
  EXPECT_EQ(RemoveSession(sessions_, session.filename().native(), false).error().code(),
            ErrorCode::kAlreadyExists);
  EXPECT_TRUE(fs::exists(session));
  EXPECT_TRUE(RemoveSession(sessions_, session.filename().native(), true).has_value());
  EXPECT_FALSE(fs::exists(session));
}

}  // namespace
}  // namespace smeltr::session
