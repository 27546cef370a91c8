#include "hook/vulkan/handle_map.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace smeltr::hook::vulkan {
namespace {

using Map = HandleMap<int, 16>;

TEST(HandleMap, FindsWhatWasInserted) {
  Map map;
  std::vector<int> values(100);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(map.Insert(0x1000 + i * 8, &values[i]), nullptr);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(map.Find(0x1000 + i * 8), &values[i]);
  EXPECT_EQ(map.Find(0x7), nullptr);
  EXPECT_EQ(map.Find(0), nullptr);
  map.Clear();
  EXPECT_EQ(map.Find(0x1000), nullptr);
}

TEST(HandleMap, AHandleUsedAgainHidesTheOldOne) {
  Map map;
  int first = 1;
  int second = 2;
  map.Insert(8, &first);
  EXPECT_EQ(map.Insert(8, &second), &first);
  EXPECT_EQ(map.Remove(8), &second);
  EXPECT_EQ(map.Find(8), nullptr);
  EXPECT_EQ(map.Remove(8), nullptr);
  map.Clear();
}

TEST(HandleMap, SlotsAreUsedAgain) {
  Map map;
  int value = 0;
  for (uint64_t key = 8; key < 8 * 100'000; key += 8) {
    map.Insert(key, &value);
    map.Remove(key);
  }
  size_t live = 0;
  map.ForEach([&](int*) { ++live; });
  EXPECT_EQ(live, 0U);
  map.Clear();
}

TEST(HandleMap, LooksUpBesideInsertsAndRemovals) {
  Map map;
  int kept = 0;
  int passing = 0;
  for (uint64_t key = 1; key <= 50; ++key) map.Insert(key * 16, &kept);
  std::thread other([&] {
    for (uint64_t round = 0; round < 20'000; ++round) {
      map.Insert(1'000'001 + round % 64, &passing);
      map.Remove(1'000'001 + round % 64);
    }
  });
  for (int round = 0; round < 2'000; ++round) {
    for (uint64_t key = 1; key <= 50; ++key) ASSERT_EQ(map.Find(key * 16), &kept);
  }
  other.join();
  map.Clear();
}

}  // namespace
}  // namespace smeltr::hook::vulkan
