#include "session/metadata.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <string>

#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

using testing::TemporaryDirectory;

class MetadataTest : public ::testing::Test {
 protected:
  void WriteFile(const std::string& text) { std::ofstream(file_) << text; }
  std::string ReadFile() {
    std::ifstream in(file_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  Metadata RoundTrip(const Metadata& metadata) {
    EXPECT_TRUE(WriteMetadata(directory_.path(), metadata).has_value());
    auto read = ReadMetadata(directory_.path());
    EXPECT_TRUE(read.has_value());
    return read.value_or(Metadata());
  }

  static Metadata Named(std::string name) {
    Metadata metadata;
    metadata.name = std::move(name);
    return metadata;
  }

  TemporaryDirectory directory_;
  std::filesystem::path file_ = directory_.path() / "metadata.toml";
};

// Each would need more stack than there is.
TEST_F(MetadataTest, EndlessKeysAreDamage) {
  const auto keys = [](std::string_view part) {
    std::string text(part);
    for (int i = 0; i < 200'000; ++i) text.append(".").append(part);
    return text;
  };
  for (const std::string& text :
       {keys("a") + "=1", "[" + keys("a") + "]", "[[" + keys("a") + "]]",
        "x = {y = 1, " + keys("a") + " = 2}", "x = {y = \"\"\"a\"\"\"\"\", " + keys("a") + " = 2}",
        "name = 'it\\'\n" + keys("\"a\"") + " = 1", "name = \"\\\"\" # '\n" + keys("'a' ") + " = 1",
        "x = \"\"\"a\n\\\"\"\"b\"\"\"\n" + keys("a") + " = 1"}) {
    std::ofstream(file_, std::ios::trunc) << text;
    const auto read = ReadMetadata(directory_.path());
    ASSERT_FALSE(read.has_value()) << text.substr(0, 60);
    EXPECT_EQ(read.error().code(), ErrorCode::kCorrupt);
    EXPECT_NE(read.error().text().find("too many parts"), std::string_view::npos) << read.error().text();
  }
}

TEST_F(MetadataTest, DotsInTextsAreNoKeys) {
  const std::string dots(1000, '.');
  Metadata written = Named(dots + "\"\n" + dots + "'");
  written.argv = {dots, "a.b.c.'" + dots, "#" + dots, "\"\"\"" + dots};
  const Metadata read = RoundTrip(written);
  EXPECT_EQ(read.name, written.name);
  EXPECT_EQ(read.argv, written.argv);
  EXPECT_EQ(RoundTrip(written).argv, written.argv) << "as the file of an earlier write";
}

TEST_F(MetadataTest, EveryFieldComesBack) {
  Metadata written;
  written.session_id = "1a2b3c4d-0000-4000-8000-000000000000";
  written.kind = SessionKind::kPostMortem;
  written.name = "a \"name\" with \\ and \xC3\xA9";
  written.started_rfc3339 = "2026-03-01T14:05:09.123Z";
  written.ended_rfc3339 = "2026-03-01T14:06:09.000Z";
  written.start_mono_ns = UINT64_MAX;
  written.boot_id = "boot";
  written.host = "box";
  written.argv = {"python", "-c", "print('\n\t')", ""};
  written.cwd = "/tmp/x";
  written.root_pid = 4242;
  written.root_start_time_ticks = 99;
  written.scope_token = "token";
  written.exit_code = 0;
  written.term_signal = 11;
  written.core_dumped = true;
  written.max_rss_bytes = 1;
  written.user_cpu_ns = 2;
  written.system_cpu_ns = 3;
  written.end_reason = "signal";
  written.hook_state = "injected";
  written.hook_reason = "because";
  written.smeltr_version = "0.1.0";
  written.event_counts = {{"VulkanCbCommitted", 7}, {"Kind#901", 1}};
  written.dropped_counts = {{"VulkanCbOps", 3}};
  written.storage_lost_count = 5;
  written.corrupt_frames = 6;
  written.trimmed_event_count = 8;
  written.trimmed_files = 9;
  written.post_mortems = {"id-1", "id-2"};
  written.related_sessions = {"id-3"};
  written.triggers = {{"gpu-error", "a \"text\"\n", 10}, {"crash", "", UINT64_MAX}};
  written.trigger_count = 75;
  written.covered_begin_ns = 11;
  written.covered_end_ns = 12;
  written.recorder_evicted_count = 13;
  const Metadata read = RoundTrip(written);
  EXPECT_EQ(read.session_id, written.session_id);
  EXPECT_EQ(read.kind, written.kind);
  EXPECT_EQ(read.name, written.name);
  EXPECT_EQ(read.started_rfc3339, written.started_rfc3339);
  EXPECT_EQ(read.ended_rfc3339, written.ended_rfc3339);
  EXPECT_EQ(read.start_mono_ns, written.start_mono_ns);
  EXPECT_EQ(read.boot_id, written.boot_id);
  EXPECT_EQ(read.host, written.host);
  EXPECT_EQ(read.argv, written.argv);
  EXPECT_EQ(read.cwd, written.cwd);
  EXPECT_EQ(read.root_pid, written.root_pid);
  EXPECT_EQ(read.root_start_time_ticks, written.root_start_time_ticks);
  EXPECT_EQ(read.scope_token, written.scope_token);
  EXPECT_EQ(read.exit_code, written.exit_code);
  EXPECT_EQ(read.term_signal, written.term_signal);
  EXPECT_EQ(read.core_dumped, written.core_dumped);
  EXPECT_EQ(read.max_rss_bytes, written.max_rss_bytes);
  EXPECT_EQ(read.user_cpu_ns, written.user_cpu_ns);
  EXPECT_EQ(read.system_cpu_ns, written.system_cpu_ns);
  EXPECT_EQ(read.end_reason, written.end_reason);
  EXPECT_EQ(read.hook_state, written.hook_state);
  EXPECT_EQ(read.hook_reason, written.hook_reason);
  EXPECT_EQ(read.smeltr_version, written.smeltr_version);
  EXPECT_EQ(read.event_counts, written.event_counts);
  EXPECT_EQ(read.dropped_counts, written.dropped_counts);
  EXPECT_EQ(read.storage_lost_count, written.storage_lost_count);
  EXPECT_EQ(read.corrupt_frames, written.corrupt_frames);
  EXPECT_EQ(read.trimmed_event_count, written.trimmed_event_count);
  EXPECT_EQ(read.trimmed_files, written.trimmed_files);
  EXPECT_EQ(read.post_mortems, written.post_mortems);
  EXPECT_EQ(read.related_sessions, written.related_sessions);
  EXPECT_EQ(read.triggers, written.triggers);
  EXPECT_EQ(read.trigger_count, written.trigger_count);
  EXPECT_EQ(read.covered_begin_ns, written.covered_begin_ns);
  EXPECT_EQ(read.covered_end_ns, written.covered_end_ns);
  EXPECT_EQ(read.recorder_evicted_count, written.recorder_evicted_count);
  EXPECT_EQ(ShortId(read), "1a2b3c4d");
}

TEST_F(MetadataTest, AbsentStaysAbsent) {
  const Metadata read = RoundTrip(Named("x"));
  EXPECT_FALSE(read.exit_code.has_value());
  EXPECT_FALSE(read.term_signal.has_value());
  EXPECT_TRUE(read.argv.empty());
  EXPECT_EQ(ReadFile().find("exit_code"), std::string::npos);
}

TEST_F(MetadataTest, AValueThatWentAwayLeavesNoKey) {
  Metadata old = Named("old");
  old.exit_code = 3;
  RoundTrip(old);
  const Metadata read = RoundTrip({});
  EXPECT_TRUE(read.name.empty());
  EXPECT_FALSE(read.exit_code.has_value());
}

TEST_F(MetadataTest, UnknownKeysSurviveRewriting) {
  WriteFile("name = \"a\"\nfuture_key = [1, 2]\n[future_table]\ninner = 1979-05-27T07:32:00Z\n");
  auto metadata = ReadMetadata(directory_.path());
  ASSERT_TRUE(metadata.has_value());
  metadata->name = "b";
  RoundTrip(*metadata);
  EXPECT_NE(ReadFile().find("future_key"), std::string::npos);
  EXPECT_NE(ReadFile().find("1979-05-27T07:32:00Z"), std::string::npos);
  EXPECT_EQ(ReadMetadata(directory_.path())->name, "b");
}

TEST_F(MetadataTest, ValuesOfAnotherTypeCountAsMissing) {
  WriteFile(
      "name = 7\nexit_code = \"no\"\nargv = \"ls\"\nroot_pid = -1\nkind = \"newer\"\nevent_counts = 3\n");
  const auto metadata = ReadMetadata(directory_.path());
  ASSERT_TRUE(metadata.has_value());
  EXPECT_TRUE(metadata->name.empty());
  EXPECT_FALSE(metadata->exit_code.has_value());
  EXPECT_TRUE(metadata->argv.empty());
  EXPECT_EQ(metadata->root_pid, 0U);
  EXPECT_EQ(metadata->kind, SessionKind::kScoped);
}

TEST_F(MetadataTest, RubbishIsAnErrorThatNamesTheFileAndRewritingReplacesIt) {
  WriteFile("= = =\nname");
  const auto metadata = ReadMetadata(directory_.path());
  ASSERT_FALSE(metadata.has_value());
  EXPECT_EQ(metadata.error().code(), ErrorCode::kCorrupt);
  EXPECT_NE(metadata.error().text().find("metadata.toml"), std::string_view::npos);
  EXPECT_EQ(RoundTrip(Named("new")).name, "new");
}

TEST_F(MetadataTest, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadMetadata(directory_.path()).error().code(), ErrorCode::kNotFound);
}

TEST_F(MetadataTest, BytesThatAreNoTextDoNotSpoilTheFile) {
  Metadata metadata;
  metadata.argv = {"\xFF\xFE", "ok"};
  metadata.cwd = "/tmp/\x80";
  const Metadata read = RoundTrip(metadata);
  EXPECT_EQ(read.argv, (std::vector<std::string>{"\xEF\xBF\xBD\xEF\xBF\xBD", "ok"}));
  EXPECT_EQ(read.cwd, "/tmp/\xEF\xBF\xBD");
}

TEST_F(MetadataTest, TriggersOfAnotherShapeAreLeftOut) {
  WriteFile("triggers = [1, 'text', {class = 'crash'}, {text = 7}]\n");
  const auto read = ReadMetadata(directory_.path());
  ASSERT_TRUE(read.has_value());
  EXPECT_EQ(read->triggers, (std::vector<TriggerNote>{{"crash", "", 0}, {"", "", 0}}));
}

}  // namespace
}  // namespace smeltr::session
