#include "daemon/log_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "fake/scratch.h"
#include "util/file.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

class LogFileTest : public fake::ScratchTest {
 protected:
  LogFileTest() : before_(::dup(STDERR_FILENO)) {}
  ~LogFileTest() override { ::dup2(before_.get(), STDERR_FILENO); }
  void OpenAsStderr(const std::filesystem::path& path) {
    const Fd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    ASSERT_EQ(::dup2(file.get(), STDERR_FILENO), STDERR_FILENO);
  }

  Fd before_;
  std::filesystem::path log_ = scratch() / "smeltrd.log";
  std::filesystem::path old_ = scratch() / "smeltrd.log.1";
};

TEST_F(LogFileTest, IsPutAsideWhenTooLong) {
  OpenAsStderr(log_);
  Log(LogLevel::kWarning, std::string(100, 'a'));
  RotateLog(log_, 1000);
  EXPECT_FALSE(std::filesystem::exists(old_));
  RotateLog(log_, 100);
  Log(LogLevel::kWarning, "b");
  EXPECT_NE(ReadFile(old_).value().find("aaa"), std::string::npos);
  EXPECT_NE(ReadFile(log_).value().find(" b\n"), std::string::npos);
  EXPECT_EQ(ReadFile(log_).value().find("aaa"), std::string::npos);
  Log(LogLevel::kWarning, std::string(100, 'c'));
  RotateLog(log_, 100);
  EXPECT_NE(ReadFile(old_).value().find("ccc"), std::string::npos) << "in place of the earlier one";
}

// A terminal, the journal, or the log of a home that was moved away.
TEST_F(LogFileTest, AnotherStderrIsLeftAlone) {
  ASSERT_TRUE(WriteFileAtomically(log_, std::string(100, 'x'), 0600, FileSync::kNone).has_value());
  OpenAsStderr(scratch() / "other");
  Log(LogLevel::kWarning, std::string(100, 'a'));
  RotateLog(log_, 10);
  EXPECT_FALSE(std::filesystem::exists(old_));
  EXPECT_EQ(std::filesystem::file_size(log_), 100U);
}

}  // namespace
}  // namespace smeltr::daemon
