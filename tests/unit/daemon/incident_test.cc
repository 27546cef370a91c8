#include "daemon/incident.h"

#include <gtest/gtest.h>

#include "base/clock.h"

namespace smeltr::daemon {
namespace {

using Verdict = Incidents::Verdict;

class IncidentsTest : public testing::Test {
 protected:
  Verdict Note(std::string_view session, TriggerClass trigger_class, double at_s) {
    return incidents_.Note(session, {.trigger_class = trigger_class, .text = "t"}, At(at_s));
  }
  static uint64_t At(double seconds) { return static_cast<uint64_t>(seconds * 1e9); }

  Incidents incidents_{{}};
};

TEST_F(IncidentsTest, IsGivenOnceAfterItsPostRoll) {
  EXPECT_EQ(Note("a", TriggerClass::kCrash, 100), Verdict::kOpened);
  EXPECT_TRUE(incidents_.TakeDue(At(101.9)).empty());
  const auto due = incidents_.TakeDue(At(102));
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].session_id, "a");
  EXPECT_EQ(due[0].first_class, TriggerClass::kCrash);
  EXPECT_TRUE(incidents_.TakeDue(At(103)).empty());
}

TEST_F(IncidentsTest, TriggersJoinForThirtySecondsWhateverTheirClass) {
  Note("a", TriggerClass::kGpuError, 100);
  for (int i = 0; i < 74; ++i) EXPECT_EQ(Note("a", TriggerClass::kGpuError, 100.5), Verdict::kJoined);
  const auto due = incidents_.TakeDue(At(102));
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].trigger_count, 75U);
  EXPECT_EQ(due[0].triggers.size(), 64U) << "the list is bounded";
  EXPECT_EQ(Note("a", TriggerClass::kCrash, 129.9), Verdict::kJoined);
  EXPECT_TRUE(incidents_.TakeGrown(At(129)).empty());
  const auto grown = incidents_.TakeGrown(At(130));
  ASSERT_EQ(grown.size(), 1U);
  EXPECT_EQ(grown[0].trigger_count, 76U);
  EXPECT_TRUE(incidents_.TakeGrown(At(131)).empty());
  EXPECT_TRUE(incidents_.idle());
}

TEST_F(IncidentsTest, CoolsDownBySessionAndClass) {
  Note("a", TriggerClass::kGpuError, 100);
  Note("a", TriggerClass::kCrash, 101);
  incidents_.TakeDue(At(102));
  EXPECT_EQ(Note("a", TriggerClass::kGpuError, 130), Verdict::kSuppressed);
  EXPECT_EQ(Note("a", TriggerClass::kCrash, 189.9), Verdict::kSuppressed) << "it joined, so it cools too";
  EXPECT_EQ(incidents_.suppressed_count(), 2U);
  EXPECT_EQ(Note("b", TriggerClass::kGpuError, 130), Verdict::kOpened);
  EXPECT_EQ(Note("a", TriggerClass::kGpuHang, 140), Verdict::kOpened);
  incidents_.TakeDue(At(142));
  EXPECT_EQ(Note("a", TriggerClass::kGpuError, 190), Verdict::kOpened);
}

TEST_F(IncidentsTest, AClosingSessionDoesNotWait) {
  Note("a", TriggerClass::kCrash, 100);
  Note("b", TriggerClass::kCrash, 100);
  ASSERT_EQ(incidents_.TakeOpen("a").size(), 1U);
  EXPECT_TRUE(incidents_.TakeOpen("a").empty());
  Note("a", TriggerClass::kCrash, 100.1);
  EXPECT_EQ(incidents_.TakeGrown(At(100.2), "a").size(), 1U);
  ASSERT_EQ(incidents_.TakeAllOpen().size(), 1U);
  EXPECT_TRUE(incidents_.TakeDue(At(200)).empty());
}

TEST_F(IncidentsTest, TenAnHourOverAllSessions) {
  for (int i = 0; i < 10; ++i) {
    EXPECT_EQ(Note("session " + std::to_string(i), TriggerClass::kCrash, 100 + i), Verdict::kOpened);
  }
  EXPECT_EQ(Note("one more", TriggerClass::kCrash, 120), Verdict::kSuppressed);
  EXPECT_EQ(Note("one more", TriggerClass::kCrash, 3699), Verdict::kSuppressed);
  EXPECT_EQ(Note("one more", TriggerClass::kCrash, 3700), Verdict::kOpened);
}

TEST_F(IncidentsTest, TwoGibibytesAnHour) {
  incidents_.NoteWritten(uint64_t{1} << 30, At(100));
  EXPECT_TRUE(incidents_.WithinBytes(At(100)));
  incidents_.NoteWritten(uint64_t{1} << 30, At(200));
  EXPECT_FALSE(incidents_.WithinBytes(At(200)));
  EXPECT_EQ(Note("a", TriggerClass::kCrash, 300), Verdict::kSuppressed);
  EXPECT_EQ(Note("a", TriggerClass::kCrash, 3700), Verdict::kOpened);
}

TEST_F(IncidentsTest, PressureOfTheMachineOnceInTenMinutes) {
  EXPECT_EQ(Note("a", TriggerClass::kMemoryPressure, 100), Verdict::kOpened);
  EXPECT_EQ(Note("b", TriggerClass::kMemoryPressure, 100), Verdict::kSuppressed);
  EXPECT_EQ(Note("b", TriggerClass::kMemoryPressure, 699), Verdict::kSuppressed);
  EXPECT_EQ(Note("b", TriggerClass::kMemoryPressure, 700), Verdict::kOpened);
}

TEST_F(IncidentsTest, AnIncidentIsOverWhenNobodyTookIt) {
  Note("a", TriggerClass::kCrash, 100);
  EXPECT_EQ(Note("a", TriggerClass::kGpuHang, 131), Verdict::kOpened);
  EXPECT_EQ(incidents_.TakeDue(At(133)).size(), 2U);
}

}  // namespace
}  // namespace smeltr::daemon
