#include "hook/core/op_timing.h"

#include <gtest/gtest.h>

#include <numeric>

namespace smeltr::hook {
namespace {

using event::Precision;

constexpr uint64_t kMs = 1'000'000;

TEST(TickClock, KnowsNothingBeforeItIsTaught) {
  TickClock clock;
  EXPECT_FALSE(clock.calibrated());
  EXPECT_EQ(clock.ToNs(123, 64), 0U);
}

TEST(TickClock, IdentityPassesTicksThrough) {
  TickClock clock;
  clock.SetIdentity();
  EXPECT_EQ(clock.ToNs(987'654'321, 64), 987'654'321U);
  EXPECT_EQ(clock.DurationNs(100, 350, 64), 250U);
}

TEST(TickClock, ScalesByThePeriodOnBothSidesOfTheReading) {
  TickClock clock;
  clock.SetPeriod(52.08);
  clock.Calibrate(1'000'000, 5'000'000'000);
  EXPECT_EQ(clock.ToNs(1'000'100, 64), 5'000'005'208U);
  EXPECT_EQ(clock.ToNs(999'900, 64), 4'999'994'792U);
}

TEST(TickClock, LargeEpochsLoseNoPrecision) {
  TickClock clock;
  clock.Calibrate(1'780'000'000'000'000'000, 77'000'000'000);
  EXPECT_EQ(clock.ToNs(1'780'000'000'000'000'032, 64), 77'000'000'032U);
}

TEST(TickClock, NarrowCountersAreReadNearTheReading) {
  TickClock clock;
  // The full counter stands a little behind a multiple of 2^32; the queue's ticks come from just before it.
  const uint64_t full = (uint64_t{7} << 32) + 1'000;
  clock.Calibrate(full, 50'000'000'000);
  EXPECT_EQ(clock.ToNs((full - 3'000) & 0xFFFF'FFFF, 32), 49'999'997'000U);
  EXPECT_EQ(clock.ToNs((full + 3'000) & 0xFFFF'FFFF, 32), 50'000'003'000U);
}

TEST(TickClock, DurationsCrossTheWrap) {
  TickClock clock;
  EXPECT_EQ(clock.DurationNs(0xFFFF'FFF0, 0x10, 32), 0x20U);
  EXPECT_EQ(clock.DurationNs(0xF'FFFF'FFF0, 0x10, 36), 0x20U);
  // Going backwards is no duration.
  EXPECT_EQ(clock.DurationNs(500, 400, 64), 0U);
}

TEST(TickClock, FollowsDriftButNotNonsense) {
  TickClock clock;
  clock.Calibrate(0, 10'000'000'000);
  clock.Calibrate(1'000'000'000, 11'000'100'000);  // 100 ppm fast.
  EXPECT_EQ(clock.ToNs(2'000'000'000, 64), 12'000'200'000U);
  clock.Calibrate(1'500'000'000, 99'000'000'000);  // The clock was stepped; the rate is not a rate.
  EXPECT_EQ(clock.ToNs(1'500'001'000, 64), 99'000'001'000U);
}

TEST(TickClock, LearnsTheOffsetFromWork) {
  TickClock clock;
  // True offset: ns = ticks + 1000. Bounds are loose at first, then tight from below.
  clock.LearnFromWork(5'000, 6'000, 5'500, 9'000, 64);
  clock.LearnFromWork(10'000, 11'000, 10'990, 12'500, 64);
  EXPECT_EQ(clock.ToNs(20'000, 64), 20'990U);
  // A bound from above moves it back.
  clock.LearnFromWork(30'000, 31'000, 30'000, 31'980, 64);
  EXPECT_EQ(clock.ToNs(31'000, 64), 31'980U);
}

TEST(TickClock, ShiftEpochMovesEverything) {
  TickClock clock;
  clock.Calibrate(1'000, 2'000);
  clock.ShiftEpoch(-500);
  EXPECT_EQ(clock.ToNs(1'000, 64), 1'500U);
}

TEST(ClampToHost, LeavesWhatFits) {
  const CheckedSpan checked = ClampToHost({.start_ns = 20, .end_ns = 30}, 10, 40);
  EXPECT_EQ(checked.span, (GpuSpan{.start_ns = 20, .end_ns = 30}));
  EXPECT_EQ(checked.epoch_error_ns, 0);
}

TEST(ClampToHost, TrimsWhatSticksOut) {
  EXPECT_EQ(ClampToHost({.start_ns = 5, .end_ns = 30}, 10, 40).span, (GpuSpan{.start_ns = 10, .end_ns = 30}));
  EXPECT_EQ(ClampToHost({.start_ns = 20, .end_ns = 60}, 10, 40).span,
            (GpuSpan{.start_ns = 20, .end_ns = 40}));
  EXPECT_EQ(ClampToHost({.start_ns = 30, .end_ns = 20}, 10, 40).span,
            (GpuSpan{.start_ns = 30, .end_ns = 30}));
}

TEST(ClampToHost, ASpanOutsideIsAnEpochError) {
  const CheckedSpan early = ClampToHost({.start_ns = 100, .end_ns = 160}, 1'000, 1'200);
  EXPECT_EQ(early.epoch_error_ns, 900);
  EXPECT_EQ(early.span, (GpuSpan{.start_ns = 1'000, .end_ns = 1'060}));
  const CheckedSpan late = ClampToHost({.start_ns = 5'000, .end_ns = 5'060}, 1'000, 1'200);
  EXPECT_EQ(late.epoch_error_ns, -3'860);
  EXPECT_EQ(late.span, (GpuSpan{.start_ns = 1'140, .end_ns = 1'200}));
}

TEST(TimestampBudget, SpendsItsStartCreditAndNoMore) {
  TimestampBudget budget(45'000);
  int64_t points = 0;
  while (budget.Spend()) ++points;
  EXPECT_EQ(points, TimestampBudget::kCreditPoints);
  EXPECT_FALSE(budget.Spend());
}

TEST(TimestampBudget, EarnsTwoPercentOfBusyTime) {
  TimestampBudget budget(10'000);
  while (budget.Spend()) {
  }
  budget.Earn(100 * kMs);  // 2 ms.
  int64_t points = 0;
  while (budget.Spend()) ++points;
  EXPECT_NEAR(static_cast<double>(points), 200, 1);
}

TEST(TimestampBudget, IdleTimeDoesNotPileUpCredit) {
  TimestampBudget budget(10'000);
  budget.Earn(uint64_t{3600} * 1'000'000'000);
  int64_t points = 0;
  while (budget.Spend()) ++points;
  EXPECT_EQ(points, TimestampBudget::kCreditPoints);
}

TEST(TimestampBudget, WaitsUntilAWholeUsualRecordingIsAffordable) {
  TimestampBudget budget(10'000);
  EXPECT_TRUE(budget.MaySample());
  budget.NotePoints(200);
  while (budget.Spend()) {
  }
  budget.Earn(50 * kMs);  // 1 ms: 100 points.
  EXPECT_FALSE(budget.MaySample());
  budget.Earn(60 * kMs);
  EXPECT_TRUE(budget.MaySample());
}

TEST(TimestampBudget, ThePriceFollowsMeasurementWithinReason) {
  TimestampBudget budget(45'000);
  for (int i = 0; i < 100; ++i) budget.NotePrice(6'000'000, 4'000'000, 100);
  EXPECT_NEAR(static_cast<double>(budget.price_ns()), 20'000, 10);
  for (int i = 0; i < 200; ++i)
    budget.NotePrice(4'000'000, 8'000'000, 100);  // Noise: faster with than without.
  EXPECT_GE(budget.price_ns(), 45'000 / 4);
  const int64_t before = budget.price_ns();
  budget.NotePrice(5'000'000, 0, 100);  // Nothing to compare with.
  EXPECT_EQ(budget.price_ns(), before);
}

TEST(ShapeTable, MedianOfTheLastNine) {
  ShapeTable shapes;
  EXPECT_EQ(shapes.Median(1), 0U);
  shapes.Add(1, 10);
  EXPECT_EQ(shapes.Median(1), 10U);
  for (uint64_t i = 1; i <= 9; ++i) shapes.Add(1, 100 * i);
  EXPECT_EQ(shapes.Median(1), 500U);
  EXPECT_EQ(shapes.Median(2), 0U);
}

TEST(ShapeTable, ShapesThatNeverRepeatDoNotGrowIt) {
  ShapeTable shapes;
  for (uint64_t shape = 0; shape < 10'000; ++shape) shapes.Add(shape, 1);
  EXPECT_EQ(shapes.Median(0), 0U);
  EXPECT_EQ(shapes.Median(9'999), 1U);
}

TEST(UnsampledSpan, TakesTheMedianOrThePrice) {
  EXPECT_EQ(UnsampledSpan(1'000, 700, 10, 20), 700U);
  EXPECT_EQ(UnsampledSpan(1'000, 1'700, 10, 20), 1'000U);
  EXPECT_EQ(UnsampledSpan(1'000, 0, 10, 20), 800U);
  EXPECT_EQ(UnsampledSpan(1'000, 0, 100, 20), 500U);
}

TEST(ShareExactly, AddsUpToTheLastNanosecond) {
  std::vector<double> weights;
  for (int i = 0; i < 1'000; ++i) weights.push_back(0.1 + i % 7 / 3.0);
  std::vector<uint64_t> shares(weights.size());
  for (const uint64_t total : {uint64_t{0}, uint64_t{1}, uint64_t{999}, uint64_t{123'456'789'012'345}}) {
    ShareExactly(weights, total, shares);
    EXPECT_EQ(std::accumulate(shares.begin(), shares.end(), uint64_t{0}), total);
  }
}

TEST(ShareExactly, EachShareIsWithinOneOfItsDue) {
  const std::vector<double> weights{1, 2, 3, 0, 4};
  std::vector<uint64_t> shares(weights.size());
  ShareExactly(weights, 1'003, shares);
  for (size_t i = 0; i < weights.size(); ++i) {
    EXPECT_NEAR(static_cast<double>(shares[i]), 100.3 * weights[i], 1.0);
  }
  EXPECT_EQ(shares[3], 0U);
}

TEST(ShareExactly, WithoutWeightsAllAreEqual) {
  const std::vector<double> weights{0, 0, 0, 0};
  std::vector<uint64_t> shares(weights.size());
  ShareExactly(weights, 400, shares);
  EXPECT_EQ(shares, (std::vector<uint64_t>{100, 100, 100, 100}));
}

RecordedOp Op(uint64_t kernel, uint32_t groups, uint64_t scope = 0) {
  return {.kernel = kernel,
          .x = groups,
          .y = 1,
          .z = 1,
          .type = event::OpType::kDispatch,
          .scope_id = event::ScopeId{scope}};
}

TEST(OpSplitter, NothingToSplit) {
  OpSplitter splitter;
  EXPECT_TRUE(splitter.Split({}, {}, 100, 0).empty());
}

TEST(OpSplitter, MergesEqualOpsInOrderOfFirstAppearance) {
  OpSplitter splitter;
  const std::vector<RecordedOp> ops{Op(9, 1), Op(5, 1), Op(9, 1), Op(9, 2), Op(5, 1, 7), Op(9, 1)};
  const auto merged = splitter.Split(ops, {}, 600, 0);
  ASSERT_EQ(merged.size(), 4U);
  EXPECT_EQ(merged[0].first, 0U);
  EXPECT_EQ(merged[0].count, 3U);
  EXPECT_EQ(merged[1].first, 1U);
  EXPECT_EQ(merged[1].count, 1U);
  EXPECT_EQ(merged[2].first, 3U);
  EXPECT_EQ(merged[3].first, 4U);  // Another scope.
  EXPECT_EQ(merged[0].gpu_ns, 300U);
  EXPECT_EQ(merged[0].precision, Precision::kUniform);
}

TEST(OpSplitter, MeasuredIntervalsBecomeShares) {
  OpSplitter splitter;
  const std::vector<RecordedOp> ops{Op(1, 1), Op(2, 1)};
  const std::vector<OpBoundary> boundaries{{.op_count = 1, .ns = 350}, {.op_count = 2, .ns = 500}};
  // 350 and 150 with a timestamp of 50 in each: 300 and 100, in a span of 800.
  const auto merged = splitter.Split(ops, boundaries, 800, 50);
  EXPECT_EQ(merged[0].gpu_ns, 600U);
  EXPECT_EQ(merged[1].gpu_ns, 200U);
  EXPECT_EQ(merged[0].precision, Precision::kOp);
}

TEST(OpSplitter, OpsOfOneGroupShareItsTime) {
  OpSplitter splitter;
  const std::vector<RecordedOp> ops{Op(1, 1), Op(2, 1), Op(3, 1)};
  const std::vector<OpBoundary> boundaries{{.op_count = 2, .ns = 200}, {.op_count = 3, .ns = 500}};
  const auto merged = splitter.Split(ops, boundaries, 500, 0);
  EXPECT_EQ(merged[0].gpu_ns, 100U);
  EXPECT_EQ(merged[1].gpu_ns, 100U);
  EXPECT_EQ(merged[2].gpu_ns, 300U);
  EXPECT_EQ(merged[0].precision, Precision::kGroup);
  EXPECT_EQ(merged[2].precision, Precision::kOp);
}

TEST(OpSplitter, UnsampledBuffersUseWhatWasLearned) {
  OpSplitter splitter;
  const std::vector<RecordedOp> ops{Op(1, 1), Op(2, 1)};
  const std::vector<OpBoundary> boundaries{{.op_count = 1, .ns = 300}, {.op_count = 2, .ns = 400}};
  splitter.Split(ops, boundaries, 400, 0);
  const std::vector<RecordedOp> later{Op(2, 1), Op(1, 1), Op(1, 1)};
  const auto merged = splitter.Split(later, {}, 7'000, 0);
  EXPECT_EQ(merged[0].gpu_ns, 1'000U);
  EXPECT_EQ(merged[1].gpu_ns, 6'000U);
  EXPECT_EQ(merged[0].precision, Precision::kProfile);
}

TEST(OpSplitter, AnUnknownSizeFallsBackToItsKernel) {
  OpSplitter splitter;
  const std::vector<RecordedOp> ops{Op(1, 1), Op(2, 1)};
  const std::vector<OpBoundary> boundaries{{.op_count = 1, .ns = 300}, {.op_count = 2, .ns = 400}};
  splitter.Split(ops, boundaries, 400, 0);
  const std::vector<RecordedOp> later{Op(2, 64), Op(1, 1), Op(3, 1)};
  const auto merged = splitter.Split(later, {}, 600, 0);
  EXPECT_EQ(merged[0].gpu_ns, 100U);
  EXPECT_EQ(merged[1].gpu_ns, 300U);
  EXPECT_EQ(merged[2].gpu_ns, 200U);  // Never seen: like the mean of the others.
  EXPECT_EQ(merged[0].precision, Precision::kProfile);
  EXPECT_EQ(merged[2].precision, Precision::kUniform);
}

// A read-back of 20 bytes was once given the time of the upload of all weights.
TEST(OpSplitter, ACopyIsNotJudgedByOneOfAnotherSize) {
  OpSplitter splitter;
  const RecordedOp upload{.kernel = 7, .x = 4'000'000, .type = event::OpType::kCopy};
  splitter.Split(std::vector{upload}, std::vector<OpBoundary>{{1, 50'000'000}}, 50'000'000, 0);
  const RecordedOp kernel{.kernel = 1, .x = 1, .type = event::OpType::kDispatch};
  splitter.Split(std::vector{kernel}, std::vector<OpBoundary>{{1, 1'000}}, 1'000, 0);
  const RecordedOp read_back{.kernel = 7, .x = 20, .type = event::OpType::kCopy};
  const auto merged = splitter.Split(std::vector{kernel, read_back}, {}, 2'000, 0);
  ASSERT_EQ(merged.size(), 2U);
  EXPECT_EQ(merged[1].precision, event::Precision::kUniform);
  EXPECT_EQ(merged[1].gpu_ns, 1'000U);
}

TEST(OpSplitter, AGroupIsSplitByMeasurementsOfItsMembers) {
  OpSplitter splitter;
  const std::vector<RecordedOp> ops{Op(1, 1), Op(2, 1)};
  const std::vector<OpBoundary> alone{{.op_count = 1, .ns = 300}, {.op_count = 2, .ns = 400}};
  splitter.Split(ops, alone, 400, 0);
  const std::vector<OpBoundary> together{{.op_count = 2, .ns = 800}};
  const auto merged = splitter.Split(ops, together, 800, 0);
  EXPECT_EQ(merged[0].gpu_ns, 600U);
  EXPECT_EQ(merged[1].gpu_ns, 200U);
  EXPECT_EQ(merged[1].precision, Precision::kGroup);
}

TEST(OpSplitter, SumsAreExactWhateverTheWeights) {
  OpSplitter splitter;
  std::vector<RecordedOp> ops;
  std::vector<OpBoundary> boundaries;
  for (uint32_t i = 0; i < 500; ++i) {
    ops.push_back(Op(i % 37, i % 5, i % 11));
    boundaries.push_back({.op_count = i + 1, .ns = uint64_t{i} * i * 13});
  }
  for (const bool sampled : {true, false}) {
    const auto merged =
        splitter.Split(ops, sampled ? std::span<const OpBoundary>(boundaries) : std::span<const OpBoundary>(),
                       987'654'321, 45'000);
    uint64_t sum = 0;
    uint64_t count = 0;
    for (const MergedOp& op : merged) {
      sum += op.gpu_ns;
      count += op.count;
    }
    EXPECT_EQ(sum, 987'654'321U);
    EXPECT_EQ(count, 500U);
  }
}

}  // namespace
}  // namespace smeltr::hook
