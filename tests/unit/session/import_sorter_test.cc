#include "session/import_sorter.h"

#include <gtest/gtest.h>

#include <random>
#include <string>

#include "unit/session/temporary_directory.h"

namespace smeltr::session {
namespace {

std::span<const std::byte> View(std::string_view text) { return std::as_bytes(std::span(text)); }

// In memory, and in many pieces on disk, the order is the same: time, rank, then as added.
TEST(ImportSorter, SortsWhateverTheMemory) {
  for (const size_t memory_bytes : {size_t{1} << 20, size_t{4096}}) {
    testing::TemporaryDirectory directory;
    ImportSorter sorter(directory.path() / "scratch", memory_bytes);
    std::mt19937_64 random(7);
    constexpr int kCount = 2000;
    for (int i = 0; i < kCount; ++i) {
      const auto time = static_cast<int64_t>(random() % 50) - 25;
      const std::string text = std::to_string(time) + " " + std::string(random() % 40, 'x');
      ASSERT_TRUE(sorter.Add({.time_ns = time, .rank = random() % 3}, View(text)).has_value());
    }
    EXPECT_EQ(sorter.pieces_on_disk() > 10, memory_bytes == 4096);
    SortKey last{.time_ns = -1000};
    int count = 0;
    const auto sorted = sorter.ForEach([&](const SortKey& key, std::span<const std::byte> record) {
      EXPECT_LT(last, key);
      const std::string_view text(reinterpret_cast<const char*>(record.data()), record.size());
      EXPECT_TRUE(text.starts_with(std::to_string(key.time_ns) + " "));
      last = key;
      ++count;
    });
    EXPECT_TRUE(sorted.has_value());
    EXPECT_EQ(count, kCount);
    // Nothing stays on disk under a name.
    EXPECT_TRUE(!std::filesystem::exists(directory.path() / "scratch") ||
                std::filesystem::is_empty(directory.path() / "scratch"));
  }
}

TEST(ImportSorter, WithoutRecordsIsNoError) {
  testing::TemporaryDirectory directory;
  ImportSorter sorter(directory.path());
  EXPECT_TRUE(sorter.ForEach([](const SortKey&, std::span<const std::byte>) { FAIL(); }).has_value());
}

}  // namespace
}  // namespace smeltr::session
