#include "util/file.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "fake/scratch.h"

namespace smeltr {
namespace {

using FileTest = fake::ScratchTest;

mode_t ModeOf(const std::filesystem::path& path) {
  struct stat status{};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 0777;
}

size_t EntryCount(const std::filesystem::path& directory) {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(directory), {}));
}

TEST_F(FileTest, AtomicWriteReplacesAndLeavesNothingBehind) {
  const auto path = scratch() / "f";
  ASSERT_TRUE(WriteFileAtomically(path, "one", 0600, FileSync::kDisk).has_value());
  ASSERT_TRUE(WriteFileAtomically(path, "second", 0644, FileSync::kNone).has_value());
  EXPECT_EQ(ReadFile(path).value(), "second");
  EXPECT_EQ(ModeOf(path), 0644U);
  EXPECT_EQ(EntryCount(scratch()), 1U);
}

TEST_F(FileTest, FailedWriteKeepsTheOldFile) {
  const auto path = scratch() / "dir";
  std::filesystem::create_directory(path);  // Renaming a file over it fails.
  const auto written = WriteFileAtomically(path, "x", 0600, FileSync::kNone);
  ASSERT_FALSE(written.has_value());
  EXPECT_TRUE(written.error().text().starts_with("cannot write " + path.native() + ": "));
  EXPECT_EQ(EntryCount(scratch()), 1U);
  EXPECT_EQ(WriteFileAtomically(scratch() / "no" / "f", "x", 0600, FileSync::kNone).error().code(),
            ErrorCode::kNotFound);
}

TEST_F(FileTest, ReadHasALimitAndWorksForProc) {
  const auto path = scratch() / "f";
  ASSERT_TRUE(WriteFileAtomically(path, std::string(1000, 'x'), 0600, FileSync::kNone).has_value());
  EXPECT_EQ(ReadFile(path, 1000)->size(), 1000U);
  EXPECT_EQ(ReadFile(path, 999).error().code(), ErrorCode::kUnsupported);
  EXPECT_FALSE(ReadFile("/proc/self/stat").value().empty());
  EXPECT_EQ(ReadFile(scratch() / "none").error().code(), ErrorCode::kNotFound);
}

TEST_F(FileTest, PrivateDirectoryIsMadeOrTightened) {
  const auto deep = scratch() / "a" / "b";
  ASSERT_TRUE(MakePrivateDirectory(deep).has_value());
  EXPECT_EQ(ModeOf(deep), 0700U);
  EXPECT_EQ(ModeOf(scratch() / "a"), 0700U);
  ASSERT_EQ(::chmod(deep.c_str(), 0777), 0);
  ASSERT_TRUE(MakePrivateDirectory(deep).has_value());
  EXPECT_EQ(ModeOf(deep), 0700U);
}

TEST_F(FileTest, PrivateDirectoryRefusesLinksAndFiles) {
  std::filesystem::create_directory(scratch() / "real");
  std::filesystem::create_directory_symlink(scratch() / "real", scratch() / "link");
  EXPECT_FALSE(MakePrivateDirectory(scratch() / "link").has_value());
  ASSERT_TRUE(WriteFileAtomically(scratch() / "file", "", 0600, FileSync::kNone).has_value());
  EXPECT_FALSE(MakePrivateDirectory(scratch() / "file").has_value());
  EXPECT_FALSE(MakePrivateDirectory(scratch() / "file" / "sub").has_value());
}

TEST_F(FileTest, SharedDirectoryStaysShared) {
  ASSERT_EQ(::chmod(scratch().c_str(), 01777), 0);
  EXPECT_EQ(MakePrivateDirectory(scratch()).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(ModeOf(scratch()), 0777U);
}

// A project's own directory as SMELTR_HOME was once closed to everybody else.
TEST_F(FileTest, DirectoryInUseKeepsItsMode) {
  ASSERT_TRUE(WriteFileAtomically(scratch() / "f", "abc", 0644, FileSync::kNone).has_value());
  ASSERT_EQ(::chmod(scratch().c_str(), 0755), 0);
  EXPECT_TRUE(MakePrivateDirectory(scratch()).has_value());
  EXPECT_EQ(ModeOf(scratch()), 0755U);
  ASSERT_EQ(::chmod(scratch().c_str(), 0775), 0);
  EXPECT_EQ(MakePrivateDirectory(scratch()).error().code(), ErrorCode::kPermission);
}

// Opening a FIFO waited for a writer that never came.
TEST_F(FileTest, OnlyRegularFilesAreRead) {
  ASSERT_EQ(::mkfifo((scratch() / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(ReadFile(scratch() / "fifo").error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(OpenRegularFile(scratch()).error().code(), ErrorCode::kCorrupt);
  EXPECT_EQ(OpenRegularFile("/dev/zero").error().code(), ErrorCode::kCorrupt);
}

TEST(SystemError, FullDiskIsTold) {
  const Error error = SystemError("write", "/x/y", ENOSPC);
  EXPECT_EQ(error.code(), ErrorCode::kNoSpace);
  EXPECT_EQ(error.text(), "cannot write /x/y: No space left on device");
}

}  // namespace
}  // namespace smeltr
