#include "util/config.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include "fake/scratch.h"
#include "util/file.h"

namespace smeltr {
namespace {

std::string ErrorOf(std::string_view text) {
  const auto loaded = ParseConfig(text, "c.toml");
  return loaded.has_value() ? "" : std::string(loaded.error().text());
}

TEST(Config, EmptyIsTheDefaults) {
  const Config config = ParseConfig("", "c.toml").value().config;
  EXPECT_EQ(config.retention.max_total_bytes, uint64_t{10} << 30);
  EXPECT_EQ(config.retention.max_age_days, 30U);
  EXPECT_EQ(config.retention.ambient_days, 7U);
  EXPECT_EQ(config.retention.max_post_mortems, 30U);
  EXPECT_EQ(config.record.max_size_bytes, 0U);
  EXPECT_EQ(config.flight_recorder.seconds, 60U);
  EXPECT_EQ(config.flight_recorder.max_memory_bytes, uint64_t{64} << 20);
  EXPECT_TRUE(config.probes.Wanted("vm"));
}

TEST(Config, EveryKeyIsRead) {
  const LoadedConfig loaded = ParseConfig(R"(
[retention]
max_total = "512 MiB"
max_age_days = 3
ambient_days = 0
post_mortems = 5
[record]
max_size = 2000000
footprint_period_ms = 250
[flight_recorder]
seconds = 0
max_memory = "8M"
[daemon]
probes = ["vm", "proc"]
probes_off = ["proc"]
)",
                                          "c.toml")
                                  .value();
  const Config& config = loaded.config;
  EXPECT_TRUE(loaded.warnings.empty());
  EXPECT_EQ(config.retention.max_total_bytes, uint64_t{512} << 20);
  EXPECT_EQ(config.retention.max_age_days, 3U);
  EXPECT_EQ(config.retention.ambient_days, 0U);
  EXPECT_EQ(config.retention.max_post_mortems, 5U);
  EXPECT_EQ(config.record.max_size_bytes, 2'000'000U);
  EXPECT_EQ(config.record.footprint_period_ms, 250U);
  EXPECT_EQ(config.flight_recorder.seconds, 0U);
  EXPECT_EQ(config.flight_recorder.max_memory_bytes, uint64_t{8} << 20);
  EXPECT_TRUE(config.probes.Wanted("vm"));
  EXPECT_FALSE(config.probes.Wanted("proc"));
  EXPECT_FALSE(config.probes.Wanted("thermal"));
}

TEST(Config, UnknownKeysAreWarnings) {
  const LoadedConfig loaded = ParseConfig("[retention]\nmax_totl = 1\n[colour]\nred = 1\n", "c.toml").value();
  ASSERT_EQ(loaded.warnings.size(), 2U);
  EXPECT_EQ(loaded.warnings[0], "c.toml:3: nothing reads 'colour': misspelt?");
  EXPECT_EQ(loaded.warnings[1], "c.toml:2: nothing reads 'max_totl': misspelt?");
}

TEST(Config, ManyUnknownKeysAreFewWarnings) {
  std::string text;
  for (int i = 0; i < 1000; ++i) text += "k" + std::to_string(i) + " = 1\n";
  EXPECT_LE(ParseConfig(text, "c.toml").value().warnings.size(), 20U);
}

TEST(Config, WrongValuesNameTheirLine) {
  EXPECT_EQ(ErrorOf("[retention]\n\nmax_total = true\n"),
            "c.toml:3: retention.max_total must be a size like \"10 GiB\", or bytes");
  EXPECT_EQ(ErrorOf("[retention]\nmax_age_days = -1\n"),
            "c.toml:2: retention.max_age_days must be a whole number from 0 to 36500");
  EXPECT_EQ(ErrorOf("[retention]\nmax_age_days = \"3\"\n"),
            "c.toml:2: retention.max_age_days must be a whole number from 0 to 36500");
  EXPECT_EQ(
      ErrorOf("[flight_recorder]\nmax_memory = \"1 KiB\"\n"),
      "c.toml:2: flight_recorder.max_memory must be a size from 1.0 MiB to 4.00 GiB like \"10 GiB\", or "
      "bytes");
  EXPECT_EQ(ErrorOf("[record]\nfootprint_period_ms = 5\n"),
            "c.toml:2: record.footprint_period_ms must be a whole number from 100 to 3600000");
  EXPECT_EQ(ErrorOf("[daemon]\nprobes = [\"vm\", 3]\n"),
            "c.toml:2: daemon.probes must be a list of names like [\"vm\", \"proc\"]");
  EXPECT_EQ(ErrorOf("[record]\nmax_size = \"10K\"\n"),
            "c.toml:2: record.max_size must be a size of 1.0 MiB or more like \"10 GiB\", or 0 for no limit");
  EXPECT_EQ(ParseConfig("[record]\nmax_size = \"0\"\n", "c.toml").value().config.record.max_size_bytes, 0U);
  EXPECT_EQ(ErrorOf("retention = 5\n"), "c.toml:1: [retention] is a section, not a value");
  EXPECT_TRUE(ErrorOf("[retention\nmax_total = 1\n").starts_with("c.toml:1: "));
}

TEST(Config, EveryWrongValueIsNamed) {
  EXPECT_EQ(ErrorOf("retention = 5\n[daemon]\nprobes = 1\n[flight_recorder]\nseconds = true\n"),
            "c.toml:3: daemon.probes must be a list of names like [\"vm\", \"proc\"]; "
            "c.toml:5: flight_recorder.seconds must be a whole number from 0 to 3600; "
            "c.toml:1: [retention] is a section, not a value");
}

// toml++ asserts what it should report, unless told not to.
TEST(Config, DamagedHeadersAreErrorsInEveryBuild) {
  for (const std::string_view text :
       {"[\u00e9]", "[\xef\xbb\xb8x]", "[$]", "[\x01retention]", "[[=]]", "[ .a]"}) {
    EXPECT_TRUE(ErrorOf(text).starts_with("c.toml:1: ")) << text << ": " << ErrorOf(text);
  }
}

class ConfigFileTest : public fake::ScratchTest {};

TEST_F(ConfigFileTest, MissingIsEmptyUnreadableIsAnError) {
  const auto file = ConfigFile(scratch());
  EXPECT_EQ(file.filename(), "config.toml");
  EXPECT_EQ(LoadConfig(file).value().config.retention.max_age_days, 30U);
  ASSERT_TRUE(
      WriteFileAtomically(file, "[retention]\nmax_age_days = 9\n", 0600, FileSync::kNone).has_value());
  EXPECT_EQ(LoadConfig(file).value().config.retention.max_age_days, 9U);
  ASSERT_TRUE(WriteFileAtomically(file, std::string(70'000, '#'), 0600, FileSync::kNone).has_value());
  EXPECT_FALSE(LoadConfig(file).has_value());
  std::filesystem::remove(file);
  std::filesystem::create_directory(file);
  EXPECT_FALSE(LoadConfig(file).has_value());
}

}  // namespace
}  // namespace smeltr
