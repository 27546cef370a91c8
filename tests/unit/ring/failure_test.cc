#include "ring/failure.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

TEST(RingFailure, IsAnEmptyFileNamedForProcessAndReason) {
  const fake::ScratchDirectory directory;
  const std::pair<ErrorCode, FailureReason> cases[] = {
      {ErrorCode::kNoSpace, FailureReason::kNoSpace},
      {ErrorCode::kUnavailable, FailureReason::kFileLimit},
      {ErrorCode::kIo, FailureReason::kOther},
  };
  for (const auto& [error, reason] : cases) {
    LeaveFailure(directory.path().c_str(), error);
    LeaveFailure(directory.path().c_str(), error);  // Again, after an exec.
    size_t found = 0;
    for (const auto& entry : std::filesystem::directory_iterator(directory.path())) {
      const auto failure = ParseFailureFileName(entry.path().filename().native());
      ASSERT_TRUE(failure.has_value()) << entry.path();
      EXPECT_EQ(*failure, (Failure{SelfIdentity(), reason}));
      EXPECT_EQ(entry.file_size(), 0U);
      ++found;
      std::filesystem::remove(entry.path());
    }
    EXPECT_EQ(found, 1U);
  }
  LeaveFailure("/no/such/directory", ErrorCode::kIo);
}

TEST(RingFailure, OtherNamesAreRefused) {
  EXPECT_EQ(ParseFailureFileName("12-34.no-space.failed").value(),
            (Failure{{.pid = 12, .start_time_ticks = 34}, FailureReason::kNoSpace}));
  for (const char* name : {"", ".failed", "12-34.failed", "12-34.ring", "12-34.no-space",
                           "12-34.x.no-space.failed", "12.other.failed", "0-1.other.failed",
                           "12-34.nospace.failed", "12-34.other.failed2", "x12-34.other.failed"}) {
    EXPECT_FALSE(ParseFailureFileName(name).has_value()) << name;
  }
}

}  // namespace
}  // namespace smeltr::ring
