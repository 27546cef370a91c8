#include "util/format.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <limits>

namespace smeltr {
namespace {

TEST(FormatDuration, ChoosesTheUnitThatReadsBest) {
  EXPECT_EQ(FormatDuration(0), "0 ns");
  EXPECT_EQ(FormatDuration(999), "999 ns");
  EXPECT_EQ(FormatDuration(1'000), "1.00 us");
  EXPECT_EQ(FormatDuration(12'345), "12.3 us");
  EXPECT_EQ(FormatDuration(4'560'000), "4.56 ms");
  EXPECT_EQ(FormatDuration(123'400'000), "123 ms");
  EXPECT_EQ(FormatDuration(1'234'000'000), "1.23 s");
  EXPECT_EQ(FormatDuration(125'000'000'000), "2 min 05 s");
  EXPECT_EQ(FormatDuration(11'220'000'000'000), "3 h 07 min");
}

TEST(FormatDuration, RoundsIntoTheNextUnitWithoutFourDigits) {
  EXPECT_EQ(FormatDuration(9'996), "10.0 us");
  EXPECT_EQ(FormatDuration(99'960), "100 us");
  EXPECT_EQ(FormatDuration(999'499), "999 us");
  EXPECT_EQ(FormatDuration(999'500), "1.00 ms");
  EXPECT_EQ(FormatDuration(999'500'000), "1.00 s");
  EXPECT_EQ(FormatDuration(59'949'999'999), "59.9 s");
  EXPECT_EQ(FormatDuration(59'950'000'000), "1 min 00 s");
  EXPECT_EQ(FormatDuration(110'000'000'000), "1 min 50 s");
  EXPECT_EQ(FormatDuration(7'199'600'000'000), "2 h 00 min");
  EXPECT_EQ(FormatDuration(std::numeric_limits<uint64_t>::max()), "5124095 h 34 min");
}

TEST(FormatBytes, UsesBinaryUnits) {
  EXPECT_EQ(FormatBytes(0), "0 B");
  EXPECT_EQ(FormatBytes(1'023), "1023 B");
  EXPECT_EQ(FormatBytes(1'024), "1 KiB");
  EXPECT_EQ(FormatBytes(1'000'000'000), "953.7 MiB");
  EXPECT_EQ(FormatBytes(2'000'000'000), "1.86 GiB");
  EXPECT_EQ(FormatBytes(1'048'575), "1.0 MiB");
}

TEST(ParseBytes, KnowsBinaryAndDecimalUnits) {
  EXPECT_EQ(ParseBytes("0"), 0U);
  EXPECT_EQ(ParseBytes("4096"), 4096U);
  EXPECT_EQ(ParseBytes("17 B"), 17U);
  EXPECT_EQ(ParseBytes("512 MiB"), uint64_t{512} << 20);
  EXPECT_EQ(ParseBytes("10G"), uint64_t{10} << 30);
  EXPECT_EQ(ParseBytes(" 2 tib "), uint64_t{2} << 40);
  EXPECT_EQ(ParseBytes("1.5 GB"), 1'500'000'000U);
  EXPECT_EQ(ParseBytes("8kB"), 8000U);
}

TEST(ParseBytes, RefusesWhatIsNoSize) {
  for (const std::string_view text : {"", " ", "GiB", "-1", "+1", "1 2", "1 XB", "1 GiBs", "1e3", "0x10",
                                      "1.2.3", "inf", "nan", "9999999999999999999 TiB"}) {
    EXPECT_EQ(ParseBytes(text), std::nullopt) << text;
  }
}

TEST(FormatCount, GroupsThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(1'000), "1,000");
  EXPECT_EQ(FormatCount(1'234'567), "1,234,567");
  EXPECT_EQ(FormatCounted(1, "kernel"), "1 kernel");
  EXPECT_EQ(FormatCounted(0, "kernel"), "0 kernels");
  EXPECT_EQ(FormatCounted(1'204, "copy", "copies"), "1,204 copies");
}

TEST(FormatPercent, NeverShowsZeroOrHundredForWhatIsNot) {
  EXPECT_EQ(FormatPercent(0, 0), "0.0");
  EXPECT_EQ(FormatPercent(0, 10), "0.0");
  EXPECT_EQ(FormatPercent(1, 3), "33.3");
  EXPECT_EQ(FormatPercent(1, 1'000'000), "<0.1");
  EXPECT_EQ(FormatPercent(999'999, 1'000'000), ">99.9");
  EXPECT_EQ(FormatPercent(10, 10), "100.0");
}

TEST(Truncate, CountsCodePointsAndMarksTheCut) {
  EXPECT_EQ(Truncate("matmul", 6), "matmul");
  EXPECT_EQ(Truncate("matmul", 4), "mat…");
  EXPECT_EQ(Truncate("größe", 3), "gr…");
  EXPECT_EQ(Truncate("größe", 1), "…");
  EXPECT_EQ(Truncate("größe", 0), "");
  EXPECT_EQ(TextWidth("größe"), 5U);
  EXPECT_EQ(TextWidth("\xff\xff"), 2U);
}

TEST(Printable, RemovesWhatATerminalWouldObey) {
  EXPECT_EQ(Printable("plain größe"), "plain größe");
  EXPECT_EQ(Printable("a\nb\x1b[2Jc"), "a?b?[2Jc");
  EXPECT_EQ(Printable("\xc2\x9b!"), "?!");  // C1 control sequence introducer
  EXPECT_EQ(Printable("a\xe2\x80\xae"
                      "b"),
            "a?b");                                       // right-to-left override
  EXPECT_EQ(Printable("\xc0\xaf\xed\xa0\x80"), "?????");  // overlong and surrogate
  EXPECT_EQ(Printable("\xe2\x80"), "??");
}

TEST(ParseRfc3339, ReadsFractionsAndOffsets) {
  int64_t seconds = 0;
  ASSERT_TRUE(ParseRfc3339("2026-03-01T14:05:09Z", seconds));
  EXPECT_EQ(seconds, 1772373909);
  int64_t other = 0;
  ASSERT_TRUE(ParseRfc3339("2026-03-01T16:05:09.123456+02:00", other));
  EXPECT_EQ(other, seconds);
  for (const char* bad : {"", "2026-03-01", "2026-13-01T00:00:00Z", "2026-03-01T14:05:09",
                          "2026-03-01T14:05:09+2:00", "yyyy-03-01T14:05:09Z"}) {
    EXPECT_FALSE(ParseRfc3339(bad, seconds)) << bad;
  }
}

TEST(FormatLocalTime, FollowsTheTimeZone) {
  setenv("TZ", "UTC0", 1);
  tzset();
  EXPECT_EQ(FormatLocalTime(1772373909), "2026-03-01 14:05:09");
}

TEST(SignalName, NamesTheUsualOnes) {
  EXPECT_EQ(SignalName(11), "SIGSEGV");
  EXPECT_EQ(SignalName(9), "SIGKILL");
  EXPECT_EQ(SignalName(99), "signal 99");
}

}  // namespace
}  // namespace smeltr
