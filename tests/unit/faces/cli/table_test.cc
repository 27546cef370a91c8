#include "faces/cli/table.h"

#include <gtest/gtest.h>

namespace smeltr::faces::cli {
namespace {

TEST(Table, AlignsAndTrims) {
  Table table({{"NAME"}, {"COUNT", Align::kRight}, {"NOTE"}});
  table.Add({"a", "1", "x"});
  table.Add({"größer", "1,000"});
  EXPECT_EQ(table.Render({.colour = false, .width = 80}),
            "NAME    COUNT  NOTE\n"
            "a           1  x\n"
            "größer  1,000\n");
}

TEST(Table, FlexibleColumnGivesWay) {
  Table table({{"KERNEL", Align::kLeft, Flex::kCut}, {"TIME", Align::kRight}});
  table.Add({"a_very_long_kernel_name_indeed", "12.3 ms"});
  EXPECT_EQ(table.Render({.colour = false, .width = 20}),
            "KERNEL          TIME\n"
            "a_very_lon…  12.3 ms\n");
  EXPECT_EQ(table.Render({.colour = false, .width = 1000}),
            "KERNEL                             TIME\n"
            "a_very_long_kernel_name_indeed  12.3 ms\n");
}

TEST(Table, WrappedColumnGoesOnBelow) {
  Table table({{"PROBE"}, {"WHY", Align::kLeft, Flex::kWrap}});
  table.Add({"vm", ""});
  table.Add({"log", "one two three"});
  EXPECT_EQ(table.Render({.colour = false, .width = 15}),
            "PROBE  WHY\n"
            "vm\n"
            "log    one two\n"
            "       three\n");
  table.Add({"long", std::string(60, 'a') + " " + std::string(60, 'b')});
  EXPECT_TRUE(table.Render({.colour = false, .width = 1000})
                  .ends_with("\nlong   " + std::string(60, 'a') + "\n       " + std::string(60, 'b') + "\n"))
      << "nobody reads lines that long";
}

TEST(Table, ColourOnlyWhenAsked) {
  Table table({{"A"}});
  table.Add({"x"}, Tone::kDim);
  EXPECT_EQ(table.Render({.colour = true, .width = 80}), "\x1b[1mA\x1b[0m\n\x1b[2mx\x1b[0m\n");
}

TEST(Labelled, WrapsUnderTheText) {
  EXPECT_EQ(Labelled("Note", 6, "one two three four", {.colour = false, .width = 16}),
            "Note  one two\n      three four\n");
  EXPECT_EQ(Labelled("", 2, "", {.colour = false, .width = 40}), "\n");
  EXPECT_EQ(Labelled("A", 2, "unbreakable_and_long_word", {.colour = false, .width = 10}),
            "A unbreakable_and_long_word\n");
}

}  // namespace
}  // namespace smeltr::faces::cli
