#include "session/import_json.h"

#include <gtest/gtest.h>

#include <map>

namespace smeltr::session {
namespace {

std::map<std::string, std::string> Object(std::string_view text, bool& ok) {
  std::map<std::string, std::string> found;
  JsonCursor cursor(text);
  cursor.ReadObject([&](std::string_view key) {
    JsonValue value;
    if (cursor.Read(value)) found[std::string(key)] = std::string(value.raw);
  });
  ok = cursor.ok();
  return found;
}

TEST(ImportJson, TakesWhatRealTracesHave) {
  bool ok = false;
  const auto found = Object(
      "{ \"a\" : 1.5e+3,, \"b\":\"x\\\"y\", \"ctl\":\"line\nbreak\x01\", \"n\":NaN \"m\":-Infinity,"
      "\"l\":[1,[2,],], \"o\":{\"p\":null,}, \"t\":true,}",
      ok);
  EXPECT_TRUE(ok);
  EXPECT_EQ(found.at("a"), "1.5e+3");
  EXPECT_EQ(found.at("b"), "x\\\"y");
  EXPECT_EQ(found.at("ctl"), "line\nbreak\x01");
  EXPECT_EQ(found.at("n"), "NaN");
  EXPECT_EQ(found.at("m"), "-Infinity");
  EXPECT_EQ(found.at("l"), "[1,[2,],]");
  EXPECT_EQ(found.at("o"), "{\"p\":null,}");
}

TEST(ImportJson, SaysWhereItCannotGoOn) {
  bool ok = true;
  Object("{\"a\":1, b:2}", ok);
  EXPECT_FALSE(ok);
  for (const std::string_view cut : {"{\"a\":1", "{\"a\":\"x", "{\"a\":12", "{\"a\"", "{"}) {
    JsonCursor cursor(cut);
    cursor.ReadObject([&](std::string_view) { cursor.Skip(); });
    EXPECT_FALSE(cursor.ok()) << cut;
    EXPECT_TRUE(cursor.at_end()) << cut;
  }
  JsonCursor word("{\"a\":maybe}");
  word.ReadObject([&](std::string_view) { word.Skip(); });
  EXPECT_FALSE(word.ok());
  EXPECT_FALSE(word.at_end());
  EXPECT_EQ(word.position(), 5U);
  const std::string deep(5000, '[');
  JsonCursor nested(deep);
  EXPECT_FALSE(nested.Skip());
}

TEST(ImportJson, UnescapesText) {
  std::string scratch;
  EXPECT_EQ(JsonText("plain", scratch), "plain");
  EXPECT_EQ(JsonText("a\\n\\\"\\\\\\/b", scratch), "a\n\"\\/b");
  EXPECT_EQ(JsonText("\\u00e9\\u20AC\\ud83d\\ude00", scratch), "\u00e9\u20AC\U0001F600");
  EXPECT_EQ(JsonText("\\ud83d!", scratch), "\uFFFD!");
  // No escapes: as they stand.
  EXPECT_EQ(JsonText("C:\\path\\u12", scratch), "C:\\path\\u12");
  EXPECT_EQ(JsonText("end\\", scratch), "end\\");
}

TEST(ImportJson, KeepsNanoseconds) {
  EXPECT_EQ(JsonMicrosecondsToNs("5278358251014.282"), 5278358251014282);
  EXPECT_EQ(JsonMicrosecondsToNs("1712345678901234.567"), 1712345678901234567);
  EXPECT_EQ(JsonMicrosecondsToNs("1712345678901234.5674"), 1712345678901234567);
  EXPECT_EQ(JsonMicrosecondsToNs("0.832"), 832);
  EXPECT_EQ(JsonMicrosecondsToNs("1.2479999999999998"), 1248);
  EXPECT_EQ(JsonMicrosecondsToNs("701"), 701000);
  EXPECT_EQ(JsonMicrosecondsToNs("-1.5"), -1500);
  EXPECT_EQ(JsonMicrosecondsToNs("1.7e+15"), 1700000000000000000);
  EXPECT_EQ(JsonMicrosecondsToNs("12e-4"), 1);
  EXPECT_EQ(JsonMicrosecondsToNs("NaN"), std::nullopt);
  EXPECT_EQ(JsonMicrosecondsToNs("1e300"), std::nullopt);
  EXPECT_EQ(JsonMicrosecondsToNs("99999999999999999999999"), std::nullopt);
  EXPECT_EQ(JsonMicrosecondsToNs(""), std::nullopt);
  EXPECT_EQ(JsonInteger("-9223372036854775807"), -9223372036854775807);
  EXPECT_EQ(JsonInteger("18446744073709551615"), std::nullopt);
  EXPECT_EQ(JsonReal("0.5"), 0.5);
}

}  // namespace
}  // namespace smeltr::session
