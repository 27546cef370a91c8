#include "hook/core/cb_tracker.h"

#include <gtest/gtest.h>

#include <thread>

namespace smeltr::hook {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

class CbTrackerTest : public testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(tracker_.Init()); }

  uint64_t Submit(uint32_t count, uint64_t committed_ns) {
    EXPECT_TRUE(tracker_.Begin(count));
    const uint64_t number = tracker_.next_submission();
    for (uint32_t i = 0; i < count; ++i) {
      tracker_.Add({.cb_id = event::CbId{++last_id_}, .submission = number, .committed_ns = committed_ns});
    }
    tracker_.Commit();
    return number;
  }

  CbTracker tracker_;
  uint64_t last_id_ = 0;
};

TEST_F(CbTrackerTest, ComesOutInOrderOfSubmission) {
  EXPECT_TRUE(tracker_.empty());
  EXPECT_EQ(Submit(2, 10), 1U);
  EXPECT_EQ(Submit(1, 20), 2U);
  for (uint64_t id = 1; id <= 3; ++id) {
    ASSERT_NE(tracker_.Front(), nullptr);
    EXPECT_EQ(event::Raw(tracker_.Front()->cb_id), id);
    EXPECT_EQ(tracker_.Front()->submission, id == 3 ? 2U : 1U);
    tracker_.Pop();
  }
  EXPECT_EQ(tracker_.Front(), nullptr);
}

TEST_F(CbTrackerTest, TheSecondIsTheOneBehindTheFront) {
  EXPECT_EQ(tracker_.Behind(1), nullptr);
  Submit(1, 1);
  EXPECT_EQ(tracker_.Behind(1), nullptr);
  Submit(1, 2);
  ASSERT_NE(tracker_.Behind(1), nullptr);
  EXPECT_EQ(event::Raw(tracker_.Behind(1)->cb_id), 2U);
  tracker_.Pop();
  EXPECT_EQ(tracker_.Behind(1), nullptr);
}

TEST_F(CbTrackerTest, AFailedSubmissionNeverShowsAndItsNumberIsUsedAgain) {
  ASSERT_TRUE(tracker_.Begin(1));
  tracker_.Add({.cb_id = event::CbId{77}, .submission = tracker_.next_submission()});
  ASSERT_EQ(tracker_.added_count(), 1U);
  EXPECT_EQ(event::Raw(tracker_.added(0).cb_id), 77U);
  EXPECT_TRUE(tracker_.empty());
  tracker_.RollBack();
  EXPECT_TRUE(tracker_.empty());
  EXPECT_EQ(Submit(1, 5), 1U);
}

TEST_F(CbTrackerTest, DepthCountsSubmissionsAboveTheCompletedOne) {
  EXPECT_EQ(tracker_.DepthWith(0), 1U);
  Submit(3, 1);
  Submit(1, 2);
  EXPECT_EQ(tracker_.DepthWith(0), 3U);
  EXPECT_EQ(tracker_.DepthWith(1), 2U);
  EXPECT_EQ(tracker_.DepthWith(2), 1U);
  EXPECT_EQ(tracker_.DepthWith(99), 1U);  // A counter that runs ahead of us is not believed.
}

TEST_F(CbTrackerTest, RefusesMoreThanItHolds) {
  EXPECT_FALSE(tracker_.Begin(CbTracker::kCapacity + 1));
  for (uint32_t i = 0; i < CbTracker::kCapacity; ++i) Submit(1, i);
  EXPECT_FALSE(tracker_.Begin(1));
  tracker_.Pop();
  EXPECT_TRUE(tracker_.Begin(1));
}

TEST_F(CbTrackerTest, SeenIsSetOnceForWhatIsComplete) {
  Submit(1, 10);
  Submit(1, 20);
  tracker_.MarkSeen(1, 100);
  tracker_.MarkSeen(2, 200);
  EXPECT_EQ(tracker_.Front()->seen_ns, 100U);
  tracker_.Pop();
  EXPECT_EQ(tracker_.Front()->seen_ns, 200U);
}

TEST_F(CbTrackerTest, WarnsOfEachSlowBufferOnce) {
  Submit(1, 0);
  Submit(1, kSecond);
  EXPECT_EQ(tracker_.NextSlow(4 * kSecond), nullptr);
  const TrackedCb* slow = tracker_.NextSlow(5 * kSecond);
  ASSERT_NE(slow, nullptr);
  EXPECT_EQ(event::Raw(slow->cb_id), 1U);
  EXPECT_EQ(tracker_.NextSlow(5 * kSecond), nullptr);
  slow = tracker_.NextSlow(7 * kSecond);
  ASSERT_NE(slow, nullptr);
  EXPECT_EQ(event::Raw(slow->cb_id), 2U);
  EXPECT_EQ(tracker_.NextSlow(60 * kSecond), nullptr);
}

TEST_F(CbTrackerTest, HostSpanStartsAtCommitOrPreviousCompletion) {
  EXPECT_EQ(tracker_.HostSpan(100, 400), (GpuSpan{.start_ns = 100, .end_ns = 400}));
  tracker_.Complete({.start_ns = 100, .end_ns = 400});
  EXPECT_EQ(tracker_.HostSpan(200, 900), (GpuSpan{.start_ns = 400, .end_ns = 900}));
  EXPECT_EQ(tracker_.HostSpan(500, 900), (GpuSpan{.start_ns = 500, .end_ns = 900}));
  EXPECT_EQ(tracker_.HostSpan(200, 300), (GpuSpan{.start_ns = 300, .end_ns = 300}));
}

TEST_F(CbTrackerTest, SpansOfAQueueNeverOverlap) {
  EXPECT_EQ(tracker_.Complete({.start_ns = 100, .end_ns = 400}), (GpuSpan{.start_ns = 100, .end_ns = 400}));
  EXPECT_EQ(tracker_.Complete({.start_ns = 300, .end_ns = 500}), (GpuSpan{.start_ns = 400, .end_ns = 500}));
  EXPECT_EQ(tracker_.Complete({.start_ns = 410, .end_ns = 450}), (GpuSpan{.start_ns = 500, .end_ns = 500}));
  EXPECT_EQ(tracker_.Complete({.start_ns = 600, .end_ns = 700}), (GpuSpan{.start_ns = 600, .end_ns = 700}));
}

TEST_F(CbTrackerTest, OneThreadSubmitsWhileAnotherWatches) {
  constexpr uint64_t kTotal = 200'000;
  std::thread watcher([this] {
    for (uint64_t expected = 1; expected <= kTotal;) {
      const TrackedCb* cb = tracker_.Front();
      if (cb == nullptr) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_EQ(event::Raw(cb->cb_id), expected);
      ASSERT_EQ(cb->submission, expected);
      tracker_.Pop();
      ++expected;
    }
  });
  for (uint64_t id = 1; id <= kTotal; ++id) {
    while (!tracker_.Begin(1)) std::this_thread::yield();
    tracker_.Add({.cb_id = event::CbId{id}, .submission = tracker_.next_submission()});
    tracker_.Commit();
  }
  watcher.join();
}

}  // namespace
}  // namespace smeltr::hook
