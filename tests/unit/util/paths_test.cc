#include "util/paths.h"

#include <set>

#include "fake/scratch.h"

namespace smeltr {
namespace {

class PathsTest : public fake::ScratchTest {
 protected:
  PathsTest() {
    for (const char* name : {"SMELTR_HOME", "SMELTR_SOCKET", "XDG_RUNTIME_DIR"}) SetEnv(name, std::nullopt);
  }
};

TEST_F(PathsTest, EverythingIsUnderHome) {
  SetEnv("SMELTR_HOME", "/a/b/../c");
  const Paths paths = ResolvePaths().value();
  EXPECT_EQ(paths.home, "/a/c");
  EXPECT_EQ(paths.socket, "/a/c/run/smeltr.sock");
  EXPECT_EQ(paths.lock, "/a/c/smeltrd.lock");
  EXPECT_EQ(paths.sessions, "/a/c/sessions");
}

TEST_F(PathsTest, BlankIsUnset) {
  SetEnv("HOME", "/somebody");
  for (const char* blank : {"", " ", "\t"}) {
    SetEnv("SMELTR_HOME", blank);
    SetEnv("SMELTR_SOCKET", blank);
    EXPECT_EQ(ResolvePaths()->home, "/somebody/.smeltr");
    EXPECT_EQ(ResolvePaths()->socket, "/somebody/.smeltr/run/smeltr.sock");
  }
}

TEST_F(PathsTest, RelativeHomeIsMadeAbsolute) {
  SetEnv("SMELTR_HOME", "here");
  EXPECT_EQ(ResolvePaths()->home, std::filesystem::current_path() / "here");
}

TEST_F(PathsTest, LongHomeMovesTheSocketAside) {
  const std::string long_home = "/" + std::string(100, 'h');
  SetEnv("SMELTR_HOME", long_home);
  SetEnv("XDG_RUNTIME_DIR", "/run/user/7");
  const auto socket = ResolvePaths()->socket;
  EXPECT_EQ(socket.parent_path().parent_path(), "/run/user/7");
  EXPECT_LE(socket.native().size(), 107U);
  SetEnv("SMELTR_HOME", long_home + "2");
  EXPECT_NE(ResolvePaths()->socket, socket);
  // Even the usual place may be too deep.
  SetEnv("XDG_RUNTIME_DIR", "/" + std::string(100, 'r'));
  EXPECT_EQ(ResolvePaths()->socket.parent_path().parent_path(), "/tmp");
}

TEST_F(PathsTest, LongExplicitSocketIsAnError) {
  SetEnv("SMELTR_HOME", "/h");
  SetEnv("SMELTR_SOCKET", "/" + std::string(106, 's'));
  EXPECT_TRUE(ResolvePaths().has_value());
  SetEnv("SMELTR_SOCKET", "/" + std::string(107, 's'));
  const auto paths = ResolvePaths();
  ASSERT_FALSE(paths.has_value());
  EXPECT_TRUE(paths.error().text().starts_with("path too long (108 > 107): ")) << paths.error().text();
}

TEST_F(PathsTest, RingsFallBackToTheHome) {
  SetEnv("SMELTR_HOME", scratch().native());
  SetEnv("XDG_RUNTIME_DIR", scratch().native());  // Only of use when memory-backed.
  const auto candidates = RingBaseCandidates(*ResolvePaths());
  EXPECT_EQ(candidates.back(), scratch() / "run" / "rings");
  for (const auto& candidate : candidates) EXPECT_NE(candidate.parent_path(), scratch());
}

TEST_F(PathsTest, VariablesAreListedOnce) {
  std::set<std::string_view> names;
  for (const EnvironmentVariable& variable : AllEnvironmentVariables()) {
    EXPECT_TRUE(names.insert(variable.name).second) << variable.name;
    EXPECT_TRUE(variable.name.starts_with("SMELTR_"));
    EXPECT_FALSE(variable.read_by.empty());
    EXPECT_FALSE(variable.meaning.empty());
  }
  EXPECT_TRUE(IsKnownEnvironmentVariable("SMELTR_HOME"));
  EXPECT_FALSE(IsKnownEnvironmentVariable("SMELTR_HOM"));
}

}  // namespace
}  // namespace smeltr
