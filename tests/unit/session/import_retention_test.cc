// What comes from elsewhere is not deleted for being old.
#include <gtest/gtest.h>

#include "session/identity.h"
#include "session/import_target.h"
#include "session/retention.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

constexpr uint64_t kDayNs = uint64_t{86'400} * 1'000'000'000;
constexpr uint64_t kNowNs = 1'800'000'000 * uint64_t{1'000'000'000};

KeptSession Kept(uint64_t started_days_ago, bool imported, SessionKind kind = SessionKind::kScoped) {
  KeptSession session;
  session.bytes = 100;
  session.stored.metadata.kind = kind;
  session.stored.metadata.started_rfc3339 = FormatUtc(kNowNs - started_days_ago * kDayNs);
  session.stored.metadata.ended_rfc3339 = session.stored.metadata.started_rfc3339;
  if (imported) session.stored.metadata.imported_rfc3339 = FormatUtc(kNowNs - kDayNs);
  return session;
}

TEST(ImportRetention, AgeCountsFromTheImport) {
  const RetentionSettings settings;
  EXPECT_EQ(PlanRemovals({Kept(400, false)}, settings, kNowNs).size(), 1U);
  EXPECT_TRUE(PlanRemovals({Kept(400, true)}, settings, kNowNs).empty());
  EXPECT_EQ(PlanRemovals({Kept(400, true)}, settings, kNowNs + 40 * kDayNs).size(), 1U);
}

TEST(ImportRetention, PostMortemsAreNotCounted) {
  RetentionSettings settings;
  settings.max_post_mortems = 1;
  const std::vector<KeptSession> sessions = {Kept(1, true, SessionKind::kPostMortem),
                                             Kept(2, false, SessionKind::kPostMortem),
                                             Kept(3, true, SessionKind::kPostMortem)};
  EXPECT_TRUE(PlanRemovals(sessions, settings, kNowNs).empty());
}

TEST(ImportRetention, ForTheirSizeTheyGoLast) {
  RetentionSettings settings;
  settings.max_total_bytes = 100;
  const std::vector<KeptSession> sessions = {Kept(2, false), Kept(20, true)};
  const auto removals = PlanRemovals(sessions, settings, kNowNs);
  ASSERT_EQ(removals.size(), 1U);
  EXPECT_EQ(removals[0].index, 0U);
}

TEST(ImportTarget, MakesUuidsOfHashes) {
  const std::string uuid = UuidOfHash(0x0123456789ABCDEF, 0xFEDCBA9876543210);
  EXPECT_EQ(uuid, "01234567-89ab-8def-bedc-ba9876543210");
  EXPECT_TRUE(NormaliseUuid(uuid).has_value());
}

// What is given up leaves nothing; what was killed is cleaned up by the next import.
TEST(ImportTarget, LeavesNothingBehind) {
  testing::TemporaryDirectory directory;
  const auto sessions = directory.path() / "sessions";
  {
    ASSERT_TRUE(ImportTarget::Begin(sessions, {}).has_value());
  }
  EXPECT_TRUE(std::filesystem::is_empty(sessions));
  std::filesystem::create_directory(sessions / ".importing-0");
  auto target = ImportTarget::Begin(sessions, {});
  ASSERT_TRUE(target.has_value());
  EXPECT_FALSE(std::filesystem::exists(sessions / ".importing-0"));
  // Another one at work at the same time stays.
  EXPECT_TRUE(ImportTarget::Begin(sessions, {}).has_value());
  target->writer().Append({{.ts_ns = 5}, event::Mark{.label = "m", .fields = {}}});
  Metadata metadata;
  metadata.session_id = UuidOfHash(1, 2);
  metadata.started_rfc3339 = FormatUtc(kNowNs);
  const auto stored = target->Finish(metadata, std::nullopt);
  ASSERT_TRUE(stored.has_value());
  EXPECT_EQ(ListSessions(sessions).value_or(std::vector<StoredSession>{}).size(), 1U);
}

}  // namespace
}  // namespace smeltr::session
