#include "session/import_cbor.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace smeltr::session {
namespace {

std::vector<std::byte> Bytes(std::initializer_list<int> values) {
  std::vector<std::byte> bytes;
  for (const int value : values) bytes.push_back(static_cast<std::byte>(value));
  return bytes;
}

// The examples of RFC 8949, appendix A, that our files have.
TEST(ImportCbor, ReadsScalars) {
  CborDocument document;
  const auto parse = [&](std::initializer_list<int> values) {
    static std::vector<std::byte> bytes;
    bytes = Bytes(values);
    return document.Parse(bytes).has_value();
  };
  ASSERT_TRUE(parse({0x1B, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF}));
  EXPECT_EQ(CborUnsigned(document.root()), ~uint64_t{0});
  ASSERT_TRUE(parse({0x39, 0x03, 0xE7}));
  EXPECT_EQ(CborSigned(document.root()), -1000);
  EXPECT_EQ(CborUnsigned(document.root()), std::nullopt);
  ASSERT_TRUE(parse({0xF9, 0xC4, 0x00}));
  EXPECT_EQ(CborReal(document.root()), -4.0);
  ASSERT_TRUE(parse({0xF9, 0x00, 0x01}));
  EXPECT_EQ(CborReal(document.root()), 5.960464477539063e-8);
  ASSERT_TRUE(parse({0xF9, 0x7C, 0x00}));
  EXPECT_TRUE(std::isinf(document.root().real));
  ASSERT_TRUE(parse({0xFB, 0x3F, 0xF1, 0x99, 0x99, 0x99, 0x99, 0x99, 0x9A}));
  EXPECT_EQ(CborReal(document.root()), 1.1);
  ASSERT_TRUE(parse({0xF5}));
  EXPECT_EQ(document.root().type, CborType::kBool);
  EXPECT_EQ(document.root().number, 1U);
  ASSERT_TRUE(parse({0xF6}));
  EXPECT_EQ(document.root().type, CborType::kNull);
  // A tag says nothing that is needed.
  ASSERT_TRUE(parse({0xC1, 0x1A, 0x51, 0x4B, 0x67, 0xB0}));
  EXPECT_EQ(CborUnsigned(document.root()), 1363896240U);
}

TEST(ImportCbor, FindsValuesAndTheirBytes) {
  // {"a": 1, "b": [_ 2, {"c": h'01'}]}
  const auto bytes = Bytes({0xA2, 0x61, 'a', 1, 0x61, 'b', 0x9F, 2, 0xA1, 0x61, 'c', 0x41, 0x01, 0xFF});
  CborDocument document;
  ASSERT_TRUE(document.Parse(bytes).has_value());
  const CborNode* list = document.Find(document.root(), "b");
  ASSERT_NE(list, nullptr);
  EXPECT_EQ(list->count, 2U);
  EXPECT_EQ(list->raw.size(), 8U);
  size_t items = 0;
  document.ForEachItem(*list, [&](const CborNode& item) {
    ++items;
    if (item.type != CborType::kMap) return;
    const CborNode* inner = document.Find(item, "c");
    ASSERT_NE(inner, nullptr);
    EXPECT_EQ(inner->text, std::string_view("\x01", 1));
  });
  EXPECT_EQ(items, 2U);
  EXPECT_EQ(document.Find(document.root(), "c"), nullptr);
}

TEST(ImportCbor, RefusesWhatIsNotOneWholeItem) {
  CborDocument document;
  EXPECT_FALSE(document.Parse({}).has_value());
  EXPECT_FALSE(document.Parse(Bytes({0x01, 0x02})).has_value());
  EXPECT_FALSE(document.Parse(Bytes({0x62, 'a'})).has_value());
  EXPECT_FALSE(document.Parse(Bytes({0xFF})).has_value());
  EXPECT_FALSE(document.Parse(Bytes({0x1C})).has_value());
  EXPECT_FALSE(document.Parse(Bytes({0xBF, 0x61, 'a', 0xFF})).has_value());
  // Counts that the bytes cannot hold ask for no memory.
  EXPECT_FALSE(
      document.Parse(Bytes({0x9B, 0x7F, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0x00})).has_value());
  const std::vector<std::byte> nested(1000, std::byte{0x81});
  EXPECT_FALSE(document.Parse(nested).has_value());
}

}  // namespace
}  // namespace smeltr::session
