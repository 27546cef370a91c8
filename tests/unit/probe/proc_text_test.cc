#include "probe/proc_text.h"

#include <gtest/gtest.h>

namespace smeltr::probe {
namespace {

TEST(ProcText, NumbersLinesAndWords) {
  EXPECT_EQ(LeadingNumber("  42 kB"), 42U);
  EXPECT_EQ(LeadingNumber("7"), 7U);
  EXPECT_EQ(LeadingNumber(""), std::nullopt);
  EXPECT_EQ(LeadingNumber("max"), std::nullopt);
  EXPECT_EQ(LeadingNumber("-1"), std::nullopt);
  EXPECT_EQ(LeadingNumber("99999999999999999999999"), std::nullopt);
  std::string_view text = "a b\n\nlast";
  std::string_view line = TakeLine(text);
  EXPECT_EQ(TakeWord(line), "a");
  EXPECT_EQ(TakeWord(line), "b");
  EXPECT_EQ(TakeWord(line), "");
  EXPECT_EQ(TakeLine(text), "");
  EXPECT_EQ(TakeLine(text), "last");
  EXPECT_EQ(TakeLine(text), "");
}

TEST(ProcText, StatMustBeWhole) {
  ProcessEntry process;
  const std::string good = "12 (a b) S 1 2 3 0 -1 0 0 0 0 0 30 4 0 0 20 0 5 0 777 0 0";
  EXPECT_TRUE(ParseStat(good, process));
  EXPECT_EQ(process.name, "a b");
  EXPECT_EQ(process.cpu_ticks, 34U);
  EXPECT_EQ(process.thread_count, 5U);
  EXPECT_EQ(process.start_time_ticks, 777U);
  for (const std::string_view bad : {"", "12", "12 (a", "12 a) S", ") (", "(a) S 1", "x (a) S 1 2 3",
                                     "12 (a) S", "12 (a) S 1 2 3 0 -1 0 0 0 0 0 x 4 0 0 20 0 5 0 777 0",
                                     "12 (a) S -1 2 3 0 -1 0 0 0 0 0 3 4 0 0 20 0 5 0 777 0",
                                     "99999999999 (a) S 1 2 3 0 -1 0 0 0 0 0 3 4 0 0 20 0 5 0 777 0"}) {
    EXPECT_FALSE(ParseStat(bad, process)) << bad;
  }
}

TEST(ProcText, MeminfoTakesWholeNamesOnly) {
  const auto figures = ParseMeminfo(
      "MemTotal:       24683584 kB\nMemAvailable:   23751824 kB\nActive:           213460 kB\n"
      "Active(anon):       1572 kB\nUnevictable:       13076 kB\nSUnreclaim:        21736 kB\n"
      "KernelStack:        1568 kB\nPageTables:         3272 kB\nSecPageTables:        99 kB\n"
      "SwapTotal:          4000 kB\nSwapFree:           1000 kB\nZswap:                 8 kB\nZswapped: 90 "
      "kB\n");
  EXPECT_EQ(figures.total_bytes, 24683584UL * 1024);
  EXPECT_EQ(figures.available_bytes, 23751824UL * 1024);
  EXPECT_EQ(figures.active_bytes, 213460U * 1024);
  EXPECT_EQ(figures.unevictable_bytes, 13076U * 1024);
  EXPECT_EQ(figures.slab_unreclaimable_bytes, 21736U * 1024);
  EXPECT_EQ(figures.kernel_stack_bytes, 1568U * 1024);
  EXPECT_EQ(figures.page_tables_bytes, 3272U * 1024);
  EXPECT_EQ(figures.swap_total_bytes, 4000U * 1024);
  EXPECT_EQ(figures.swap_free_bytes, 1000U * 1024);
  EXPECT_EQ(figures.zswap_bytes, 8U * 1024);
  EXPECT_EQ(ParseMeminfo("MemTotal: 18446744073709551615 kB\nMemAvailable: junk").total_bytes, 0U);
}

TEST(ProcText, Vmstat) {
  const auto figures = ParseVmstat("pswpin 1\npswpout 2\npgmajfault 3\noom_kill 4\npgfault 9\n");
  EXPECT_EQ(figures.swap_ins, 1U);
  EXPECT_EQ(figures.swap_outs, 2U);
  EXPECT_EQ(figures.major_faults, 3U);
  EXPECT_EQ(figures.oom_kills, 4U);
}

TEST(ProcText, Pressure) {
  const auto figures = ParsePressure(
      "some avg10=3.48 avg60=3.29 avg300=11.49 total=99147021\nfull avg10=0.70 avg60=0.05 avg300=0.00 "
      "total=12\n");
  ASSERT_TRUE(figures.has_value());
  EXPECT_DOUBLE_EQ(figures->some.avg10_pct, 3.48);
  EXPECT_DOUBLE_EQ(figures->some.avg60_pct, 3.29);
  EXPECT_EQ(figures->some.total_us, 99147021U);
  EXPECT_DOUBLE_EQ(figures->full.avg10_pct, 0.7);
  EXPECT_DOUBLE_EQ(figures->full.avg60_pct, 0.05);
  EXPECT_EQ(figures->full.total_us, 12U);
  // The CPU has no full line on older kernels.
  EXPECT_TRUE(ParsePressure("some avg10=100.00 avg60=0.00 avg300=0.00 total=1\n").has_value());
  EXPECT_FALSE(ParsePressure("").has_value());
  EXPECT_FALSE(ParsePressure("some avg10= total=1").has_value());
  EXPECT_FALSE(ParsePressure("full avg10=1.00 total=1").has_value());
}

TEST(ProcText, CpuLine) {
  const auto figures = ParseCpuLine("cpu  10 20 30 400 5 6 7 8 9 10\ncpu0 1 1 1 1\n");
  ASSERT_TRUE(figures.has_value());
  EXPECT_EQ(figures->all_ticks, 486U);
  EXPECT_EQ(figures->busy_ticks, 81U);
  EXPECT_FALSE(ParseCpuLine("cpu0 1 1 1 1").has_value());
  EXPECT_FALSE(ParseCpuLine("cpu 1 x 1 1").has_value());
}

TEST(ProcText, Status) {
  const auto figures = ParseStatus(
      "Name:\tThreads:9\nVmHWM:\t 4500 kB\nVmRSS:\t 4400 kB\nRssAnon:\t 1000 kB\nRssFile:\t 3000 kB\n"
      "RssShmem:\t 400 kB\nVmPTE:\t 50 kB\nVmSwap:\t 6 kB\nThreads:\t3\n");
  EXPECT_EQ(figures.peak_rss_bytes, 4500U * 1024);
  EXPECT_EQ(figures.rss_bytes, 4400U * 1024);
  EXPECT_EQ(figures.rss_anon_bytes, 1000U * 1024);
  EXPECT_EQ(figures.rss_file_bytes, 3000U * 1024);
  EXPECT_EQ(figures.rss_shmem_bytes, 400U * 1024);
  EXPECT_EQ(figures.page_table_bytes, 50U * 1024);
  EXPECT_EQ(figures.swap_bytes, 6U * 1024);
  EXPECT_EQ(ParseStatus("Name:\tkthreadd\nThreads:\t1\n").rss_bytes, 0U);
}

TEST(ProcText, SmallOnes) {
  EXPECT_EQ(ParsePss("55-7f ---p [rollup]\nRss: 90 kB\nPss:  80 kB\nPss_Dirty: 7 kB\n"), 80U * 1024);
  EXPECT_EQ(ParsePss("Rss: 90 kB\n"), std::nullopt);
  EXPECT_EQ(ParseZramUsed("  100   50   60  0 0\n"), 60U);
  EXPECT_EQ(ParseZramUsed("1 2"), std::nullopt);
  EXPECT_EQ(FlatKeyed("low 0\nhigh 1\noom 2\noom_kill 3\n", "oom_kill"), 3U);
  EXPECT_EQ(FlatKeyed("low 0\n", "oom"), std::nullopt);
}

}  // namespace
}  // namespace smeltr::probe
