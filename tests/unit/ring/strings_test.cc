#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <thread>

#include "fake/ring_pair.h"

namespace smeltr::ring {
namespace {

using fake::RingPair;

// The texts of the marks in the ring.
std::vector<std::string> Labels(RingPair& ring) {
  std::vector<std::string> labels;
  ring.reader().Drain(UINT64_MAX, [&](const event::Event& event) {
    labels.emplace_back(std::get<event::Mark>(event.payload).label.view);
  });
  return labels;
}

bool WriteMark(RingPair& ring, const event::Text& label) {
  return ring.writer().Write(event::Api::kNone, event::Mark{.label = label, .fields = {}});
}

TEST(Strings, EqualTextsHaveOneId) {
  RingPair ring;
  const uint32_t first = ring.writer().Intern("matmul");
  EXPECT_NE(first, 0U);
  EXPECT_EQ(ring.writer().Intern(std::string("mat") + "mul"), first);
  EXPECT_NE(ring.writer().Intern("matmul "), first);
  EXPECT_EQ(ring.writer().Intern(""), 0U);
}

TEST(Strings, TextsOfEveryLengthAreToldApart) {
  RingPair ring;
  std::map<uint32_t, std::string> texts;
  for (size_t size = 1; size < 70; ++size) {
    for (size_t at = 0; at < size; ++at) {
      std::string text(size, 'a');
      text[at] = 'b';
      const uint32_t id = ring.writer().Intern(text);
      ASSERT_NE(id, 0U);
      const auto [entry, added] = texts.emplace(id, text);
      EXPECT_TRUE(added) << text << " has the id of " << entry->second;
      ASSERT_TRUE(WriteMark(ring, {text, id}));
    }
  }
  std::multiset<std::string> expected;
  for (const auto& [id, text] : texts) expected.insert(text);
  const auto labels = Labels(ring);
  EXPECT_EQ(std::multiset<std::string>(labels.begin(), labels.end()), expected);
}

TEST(Strings, ARepeatedTextIsInTheRingOnce) {
  RingPair ring;
  for (int i = 0; i < 1'000; ++i) ASSERT_TRUE(WriteMark(ring, "a label that is longer than its event"));
  EXPECT_LT(ring.header().string_used_bytes, 64U);
  EXPECT_EQ(Labels(ring), std::vector<std::string>(1'000, "a label that is longer than its event"));
}

TEST(Strings, AFullTableSendsTextsInline) {
  RingPair ring(64);
  std::vector<std::string> expected;
  const std::string padding(900, 'p');
  for (int i = 0; ring.header().strings_inline < 5; ++i) {
    ASSERT_LT(i, 100'000);
    expected.push_back(padding + std::to_string(i));
    ASSERT_TRUE(WriteMark(ring, std::string_view(expected.back())));
  }
  EXPECT_GT(expected.size(), 4'000U) << "the table took less than it has room for";
  EXPECT_LE(ring.header().string_used_bytes, kStringBytes);
  EXPECT_EQ(Labels(ring), expected);
  // What is in the table is still found there.
  EXPECT_NE(ring.writer().Intern(expected.front()), 0U);
}

TEST(Strings, TooManyTextsAreSentInline) {
  RingPair ring(256);
  uint32_t interned = 0;
  for (uint32_t i = 0; i < 2 * kStringSlotCount; ++i) {
    if (ring.writer().Intern("s" + std::to_string(i)) != 0) ++interned;
  }
  EXPECT_GT(interned, kStringSlotCount / 2);
  EXPECT_LT(interned, kStringSlotCount + 1);
  EXPECT_EQ(ring.header().strings_inline, 2 * kStringSlotCount - interned);
  ASSERT_TRUE(WriteMark(ring, "not yet known"));
  EXPECT_EQ(Labels(ring), std::vector<std::string>{"not yet known"});
}

TEST(Strings, LongTextsGoInlineAndVeryLongOnesAreCut) {
  RingPair ring;
  const std::string inlined(3'000, 'i');
  const std::string cut(9'000, 'c');
  EXPECT_EQ(ring.writer().Intern(inlined), 0U);
  ASSERT_TRUE(WriteMark(ring, std::string_view(inlined)));
  ASSERT_TRUE(WriteMark(ring, std::string_view(cut)));
  const std::vector<std::string> expected{inlined, cut.substr(0, event::kMaxTextBytes)};
  EXPECT_EQ(Labels(ring), expected);
}

TEST(Strings, ThreadsThatAddTheSameTextsAgree) {
  RingPair ring;
  constexpr size_t kThreads = 4;
  constexpr size_t kTexts = 2'000;
  std::vector<std::vector<uint32_t>> ids(kThreads, std::vector<uint32_t>(kTexts));
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      for (size_t i = 0; i < kTexts; ++i) {
        const size_t text = t % 2 == 0 ? i : kTexts - 1 - i;
        ids[t][text] = ring.writer().Intern("text number " + std::to_string(text));
      }
    });
  }
  for (auto& thread : threads) thread.join();
  for (size_t t = 1; t < kThreads; ++t) EXPECT_EQ(ids[t], ids[0]);
  EXPECT_EQ(std::set<uint32_t>(ids[0].begin(), ids[0].end()).size(), kTexts);
}

TEST(Strings, IdsThatDoNotExistAreEmptyTexts) {
  RingPair ring;
  ring.writer().Intern("one");
  for (const uint32_t id : {2U, 3U, 4'000U, kStringBytes, kStringBytes + 1, 0x7FFF'FFFFU}) {
    ASSERT_TRUE(WriteMark(ring, {"?", id}));
    const auto labels = Labels(ring);
    ASSERT_EQ(labels.size(), 1U);
    EXPECT_LE(labels[0].size(), event::kMaxTextBytes);
  }
}

}  // namespace
}  // namespace smeltr::ring
