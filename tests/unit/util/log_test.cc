#include "util/log.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace smeltr {
namespace {

class LogTest : public testing::Test {
 protected:
  void SetUp() override {
    SetLogLevel(LogLevel::kInfo);
    testing::internal::CaptureStderr();
  }
  // What was logged, without the times.
  static std::string Logged() {
    std::string all = testing::internal::GetCapturedStderr();
    std::string out;
    for (size_t start = 0; start < all.size();) {
      const size_t end = all.find('\n', start);
      out += all.substr(start, end - start + 1).substr(std::string("2025-01-31T12:00:00.123Z ").size());
      start = end + 1;
    }
    return out;
  }
};

TEST_F(LogTest, LinesCannotBeForged) {
  Log(LogLevel::kWarning, "name\n2025-01-31T12:00:00.123Z error fake\x1B[31m");
  EXPECT_EQ(Logged(), "warn  name 2025-01-31T12:00:00.123Z error fake [31m\n");
}

TEST_F(LogTest, LinesAreNotEndless) {
  Log(LogLevel::kWarning, std::string(900'000, 'x'));
  EXPECT_EQ(Logged(), "warn  " + std::string(4096, 'x') + " ...\n");
}

TEST_F(LogTest, LevelIsTheLowestToAppear) {
  SetLogLevel(ParseLogLevel("warn", LogLevel::kInfo));
  Log(LogLevel::kInfo, "no");
  Log(LogLevel::kError, "yes");
  EXPECT_EQ(Logged(), "error yes\n");
  EXPECT_EQ(ParseLogLevel("loud", LogLevel::kError), LogLevel::kError);
}

TEST_F(LogTest, RepeatsAreCountedNotLogged) {
  LogThrottle throttle(100);
  for (uint64_t now = 0; now < 300; ++now) throttle.Log(LogLevel::kInfo, "k", "again", now);
  throttle.Log(LogLevel::kInfo, "other", "once", 150);
  EXPECT_EQ(Logged(),
            "info  again\ninfo  again (99 more like it left out)\n"
            "info  again (99 more like it left out)\ninfo  once\n");
}

}  // namespace
}  // namespace smeltr
