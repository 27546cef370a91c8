#include "util/edit_distance.h"

#include <gtest/gtest.h>

namespace smeltr {
namespace {

TEST(EditDistance, CountsSlips) {
  EXPECT_EQ(EditDistance("", ""), 0U);
  EXPECT_EQ(EditDistance("show", "show"), 0U);
  EXPECT_EQ(EditDistance("shwo", "show"), 1U);
  EXPECT_EQ(EditDistance("list", "ls"), 2U);
  EXPECT_EQ(EditDistance("", "rm"), 2U);
  EXPECT_EQ(EditDistance("breakdwn", "breakdown"), 1U);
  EXPECT_EQ(EditDistance("kitten", "sitting"), 3U);
}

}  // namespace
}  // namespace smeltr
