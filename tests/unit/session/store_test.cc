#include "session/store.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <set>

#include "session/identity.h"
#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::TemporaryDirectory;

class StoreTest : public ::testing::Test {
 protected:
  static Metadata WithId(std::string id) {
    Metadata metadata;
    metadata.session_id = std::move(id);
    return metadata;
  }
  StoredSession Add(const std::string& id_start, const std::string& started, const std::string& name = "",
                    SessionKind kind = SessionKind::kScoped) {
    Metadata metadata =
        WithId(id_start + std::string(8 - id_start.size(), '0') + "-1111-4111-8111-111111111111");
    metadata.kind = kind;
    metadata.name = name;
    metadata.started_rfc3339 = started;
    auto session = CreateSession(sessions_, metadata);
    EXPECT_TRUE(session.has_value()) << (session ? "" : session.error().text());
    return *session;
  }
  std::string ResolvedId(std::string_view reference) {
    const auto session = Resolve(sessions_, reference);
    return session ? session->short_id() : "error: " + std::string(session.error().text());
  }
  std::string LastId(bool include_ambient = false) {
    const auto session = ResolveLast(sessions_, include_ambient);
    return session ? session->short_id() : "error: " + std::string(session.error().text());
  }

  TemporaryDirectory directory_;
  std::filesystem::path sessions_ = directory_.path() / "home" / "sessions";
};

TEST_F(StoreTest, CreateMakesAPrivateDirectoryNamedByStartAndId) {
  const StoredSession given = Add("abcd1234", "2026-03-01T14:05:09.123Z", "n");
  EXPECT_EQ(given.directory.filename(), "2026-03-01-140509-abcd1234");
  struct stat status{};
  ASSERT_EQ(::stat(given.directory.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 0777, 0700U);
  EXPECT_EQ(ReadMetadata(given.directory)->name, "n");
}

TEST_F(StoreTest, CreateFillsInWhatIsMissing) {
  std::set<std::string> ids;
  for (int i = 0; i < 20; ++i) {
    const auto session = CreateSession(sessions_, {});
    ASSERT_TRUE(session.has_value());
    const Metadata metadata = *ReadMetadata(session->directory);
    EXPECT_TRUE(NormaliseUuid(metadata.session_id).has_value()) << metadata.session_id;
    EXPECT_EQ(metadata.session_id[14], '4');
    EXPECT_TRUE(ParseInstant(metadata.started_rfc3339).has_value());
    EXPECT_GT(metadata.start_mono_ns, 0U);
    EXPECT_FALSE(metadata.host.empty());
    EXPECT_TRUE(session->directory.filename().native().ends_with("-" + ShortId(metadata)));
    ids.insert(metadata.session_id);
  }
  EXPECT_EQ(ids.size(), 20U);
}

TEST_F(StoreTest, CreateRefusesTwoOfOneIdAndIdsThatAreNone) {
  Add("abcd1234", "2026-03-01T14:05:09Z");
  Metadata same = WithId("abcd1234-1111-4111-8111-111111111111");
  same.started_rfc3339 = "2026-03-01T14:05:09Z";
  EXPECT_EQ(CreateSession(sessions_, same).error().code(), ErrorCode::kAlreadyExists);
  EXPECT_EQ(CreateSession(sessions_, WithId("../../etc")).error().code(), ErrorCode::kInvalidArgument);
  Metadata undated;
  undated.started_rfc3339 = "today";
  EXPECT_EQ(CreateSession(sessions_, undated).error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(StoreTest, ListIsNewestStartFirstWhateverTheNames) {
  Add("b", "2026-03-01T14:05:09.100Z");
  Add("c", "2026-03-01T14:05:09.200Z");
  Add("a", "2025-12-31T23:59:59Z");
  Add("d", "2026-03-01T15:05:08+01:00");  // A second before b.
  const auto sessions = ListSessions(sessions_);
  ASSERT_TRUE(sessions.has_value());
  std::string order;
  for (const StoredSession& session : *sessions) order += session.short_id()[0];
  EXPECT_EQ(order, "cbda");
}

TEST_F(StoreTest, ListOfNothingIsEmpty) {
  const auto sessions = ListSessions(sessions_);
  ASSERT_TRUE(sessions.has_value());
  EXPECT_TRUE(sessions->empty());
}

TEST_F(StoreTest, UnreadableSessionsAreListedAndForeignDirectoriesAreNot) {
  Add("a", "2026-03-01T14:05:09Z");
  std::filesystem::create_directories(sessions_ / "2026-04-01-000000-deadbeef");
  std::ofstream(sessions_ / "2026-04-01-000000-deadbeef" / "metadata.toml") << "= rubbish";
  std::filesystem::create_directories(sessions_ / "copied");
  std::ofstream(sessions_ / "copied" / kEventsFile) << "";
  std::filesystem::create_directories(sessions_ / "lost+found");
  std::ofstream(sessions_ / "stray-file") << "";
  const auto sessions = ListSessions(sessions_);
  ASSERT_EQ(sessions->size(), 3U);
  EXPECT_FALSE((*sessions)[0].metadata_readable);
  EXPECT_EQ((*sessions)[0].short_id(), "deadbeef");
  EXPECT_EQ((*sessions)[0].metadata.started_rfc3339, "2026-04-01T00:00:00Z");
  EXPECT_EQ(ResolvedId("deadbeef"), "deadbeef");
  EXPECT_EQ(ResolvedId("2026-04-01-000000-deadbeef"), "deadbeef");
  EXPECT_EQ(Resolve(sessions_, "copied")->directory.filename(), "copied");
  // Never chosen when nobody named it.
  EXPECT_EQ(LastId(), "a0000000");
}

TEST_F(StoreTest, References) {
  Add("abcd1234", "2026-03-01T00:00:01Z", "train");
  Add("abcd5678", "2026-03-01T00:00:02Z", "train");
  Add("12345678", "2026-03-01T00:00:03Z", "abcd");
  Add("feed0000", "2026-03-01T00:00:04Z", "12345678 again");
  EXPECT_EQ(ResolvedId("2026-03-01-000001-abcd1234"), "abcd1234");
  EXPECT_EQ(ResolvedId("abcd1234-1111-4111-8111-111111111111"), "abcd1234");
  EXPECT_EQ(ResolvedId("ABCD1234111141118111111111111111"), "abcd1234");
  EXPECT_EQ(ResolvedId("ABCD5678"), "abcd5678");
  EXPECT_EQ(ResolvedId("train"), "abcd5678");      // The newest of a name.
  EXPECT_EQ(ResolvedId("abcd"), "12345678");       // An exact name comes before a prefix.
  EXPECT_EQ(ResolvedId("abcd1"), "abcd1234");      // A prefix that only one has.
  EXPECT_EQ(ResolvedId("feed00001"), "feed0000");  // Longer than the short id.
  EXPECT_EQ(ResolvedId("12345678 again"), "feed0000");
}

TEST_F(StoreTest, AmbiguousPrefixesListTheCandidates) {
  Add("abcd1234", "2026-03-01T00:00:01Z", "first");
  Add("abcd5678", "2026-03-01T00:00:02Z");
  const auto session = Resolve(sessions_, "abcd");
  ASSERT_FALSE(session.has_value());
  EXPECT_EQ(session.error().code(), ErrorCode::kAmbiguous);
  const std::string text(session.error().text());
  EXPECT_NE(text.find("abcd1234"), std::string::npos) << text;
  EXPECT_NE(text.find("first"), std::string::npos) << text;
  EXPECT_NE(text.find("abcd5678"), std::string::npos) << text;
  EXPECT_NE(text.find("2026-03-01T00:00:02"), std::string::npos) << text;
}

TEST_F(StoreTest, UnknownReferencesNameTheNearest) {
  Add("abcd1234", "2026-03-01T00:00:01Z", "training");
  Add("99990000", "2026-03-01T00:00:02Z", "inference");
  const auto text = [&](std::string_view reference) {
    const auto session = Resolve(sessions_, reference);
    EXPECT_EQ(session.error().code(), ErrorCode::kNotFound);
    return std::string(session.error().text());
  };
  EXPECT_NE(text("trainnig").find("nearest: abcd1234 (training)"), std::string::npos) << text("trainnig");
  EXPECT_EQ(text("trainnig").find("inference"), std::string::npos);
  EXPECT_NE(text("abcd1324").find("abcd1234"), std::string::npos);
  EXPECT_NE(text("infer").find("inference"), std::string::npos);
  EXPECT_EQ(text("zzzz").find("nearest"), std::string::npos);
  EXPECT_NE(text("zzzz").find("sessions ls"), std::string::npos);
  // Fragments and dates never match by accident.
  EXPECT_EQ(Resolve(sessions_, "2026").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Resolve(sessions_, "abc").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Resolve(sessions_, "").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Resolve(sessions_, "../sessions").error().code(), ErrorCode::kNotFound);
}

TEST_F(StoreTest, NoSessionsYetSaysHowToRecord) {
  EXPECT_NE(ResolvedId("any").find("smeltr record"), std::string::npos);
  EXPECT_NE(LastId().find("SMELTR_HOME"), std::string::npos);
}

TEST_F(StoreTest, LastPrefersScoped) {
  Add("a", "2026-03-01T00:00:01Z", "", SessionKind::kAmbient);
  EXPECT_EQ(LastId(), "a0000000");
  Add("b", "2026-03-01T00:00:02Z");
  Add("c", "2026-03-01T00:00:03Z", "", SessionKind::kPostMortem);
  Add("d", "2026-03-01T00:00:04Z", "", SessionKind::kAmbient);
  EXPECT_EQ(LastId(), "b0000000");
  EXPECT_EQ(LastId(true), "d0000000");
}

TEST(SessionName, Table) {
  struct Case {
    std::string_view name;
    std::optional<std::string_view> valid;
  };
  const std::string long_name(201, 'a');
  const std::string two_byte_names = [] {
    std::string text;
    for (int i = 0; i < 200; ++i) text += "\xC3\xA9";
    return text;
  }();
  const Case cases[] = {
      {"", ""},
      {"  train run ", "train run"},
      {"\t\n", ""},
      {"a/b", std::nullopt},
      {std::string_view("a\0b", 3), std::nullopt},
      {"a\x1b[31m", std::nullopt},
      {"a\xC2\x9B", std::nullopt},
      {"a\xFF", std::nullopt},
      {long_name, std::nullopt},
      {two_byte_names, two_byte_names},
      {"deadbeef", std::nullopt},
      {"deadbee", "deadbee"},
      {"abcd1234-1111-4111-8111-111111111111", std::nullopt},
      {"2026-03-01-000001-abcd1234", std::nullopt},
      {"post-mortem-x", std::nullopt},
      {"postmortem", "postmortem"},
  };
  for (const Case& c : cases) {
    const auto result = ValidateName(c.name);
    ASSERT_EQ(result.has_value(), c.valid.has_value()) << c.name;
    if (result) {
      EXPECT_EQ(*result, *c.valid);
    } else {
      EXPECT_EQ(result.error().code(), ErrorCode::kInvalidArgument);
    }
  }
}

TEST(Instants, FractionsAndOffsets) {
  EXPECT_EQ(ParseInstant("1970-01-01T00:00:01.5Z"), 1'500'000'000U);
  EXPECT_EQ(ParseInstant("1970-01-01T01:00:01.000000001+01:00"), 1'000'000'001U);
  EXPECT_FALSE(ParseInstant("yesterday").has_value());
  EXPECT_EQ(FormatUtc(1'500'000'000), "1970-01-01T00:00:01.500Z");
}

TEST_F(StoreTest, PostMortemsAreNamedForTheirLabelWhateverItHolds) {
  const auto name_of = [&](std::string_view label) {
    const auto session = CreatePostMortem(sessions_, label, {});
    EXPECT_TRUE(session.has_value());
    const std::string name = session->directory.filename().native();
    EXPECT_EQ(session->directory.parent_path(), sessions_);
    EXPECT_EQ(session->metadata.kind, SessionKind::kPostMortem);
    EXPECT_TRUE(IsDirectoryName(name.substr(name.size() - 26))) << name;
    return name.substr(0, name.size() - 26);
  };
  EXPECT_EQ(name_of("gpu-error"), "post-mortem-gpu-error-");
  EXPECT_EQ(name_of("../../Etc/Passwd"), "post-mortem-etc-passwd-");
  EXPECT_EQ(name_of("  what? now!  "), "post-mortem-what-now-");
  EXPECT_EQ(name_of(""), "post-mortem-request-");
  EXPECT_EQ(name_of(std::string("\0/\n\xff", 4)), "post-mortem-request-");
  EXPECT_EQ(name_of(std::string(300, 'x')), "post-mortem-" + std::string(40, 'x') + "-");
}

TEST_F(StoreTest, APostMortemDoesNotOutrankWhatItIsAbout) {
  const StoredSession source = Add("aaaa0001", "2026-03-01T14:05:09Z", "train");
  Metadata about = WithId("bbbb0002-1111-4111-8111-111111111111");
  about.started_rfc3339 = "2026-03-01T14:05:09Z";
  about.name = "train";
  about.source_session_id = source.metadata.session_id;
  ASSERT_TRUE(CreatePostMortem(sessions_, "crash", about).has_value());
  EXPECT_EQ(ResolvedId("train"), "aaaa0001");
  EXPECT_EQ(LastId(true), "aaaa0001");
  EXPECT_EQ(ResolvedId("bbbb0002"), "bbbb0002");
  // Newer than the dump, which its name would place last.
  Add("cccc0003", "2026-03-02T00:00:00Z");
  EXPECT_EQ(LastId(), "cccc0003");
  EXPECT_EQ(LastId(true), "cccc0003");
}

}  // namespace
}  // namespace smeltr::session
