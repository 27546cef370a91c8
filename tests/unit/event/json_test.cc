#include "event/json.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "event/names.h"

namespace smeltr::event {
namespace {

std::string Json(const Event& event) {
  std::string out;
  AppendJson(event, out);
  return out;
}

std::string JsonText(std::string_view text) {
  std::string out;
  AppendJsonText(text, out);
  return out;
}

constexpr Envelope kEnvelope{.ts_ns = 12, .seq = 3, .pid = 70, .tid = 71, .api = Api::kVulkan};

TEST(EventJson, EnvelopeThenFieldsInOrder) {
  EXPECT_EQ(Json({kEnvelope, CbScheduled{.cb_id = CbId{1}, .queue_id = QueueId{2}}}),
            R"({"ts_mono_ns":12,"seq":3,"pid":70,"tid":71,"source":"Hook","kind":"VulkanCbScheduled",)"
            R"("cb_id":1,"queue_id":2})");
}

TEST(EventJson, OptionalFieldsAppearOnlyWithAValue) {
  const auto bare = nlohmann::json::parse(Json({kEnvelope, CbCommitted{.cb_id = CbId{1}}}));
  EXPECT_FALSE(bare.contains("scope_id"));
  EXPECT_FALSE(bare.contains("label"));
  EXPECT_EQ(bare.at("queue_depth"), 0);
  EXPECT_EQ(bare.at("type"), "commands");
  const auto full = nlohmann::json::parse(
      Json({kEnvelope, CbCommitted{.scope_id = ScopeId{9}, .label = "frame", .type = CbType::kCopy}}));
  EXPECT_EQ(full.at("scope_id"), 9);
  EXPECT_EQ(full.at("label"), "frame");
  EXPECT_EQ(full.at("type"), "copy");
}

TEST(EventJson, IntegersStayExact) {
  const Event event{kEnvelope, CbCompleted{.error_code = std::numeric_limits<int64_t>::min(),
                                           .in_flight_ns = std::numeric_limits<uint64_t>::max()}};
  const auto json = nlohmann::json::parse(Json(event));
  EXPECT_EQ(json.at("error_code").get<int64_t>(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(json.at("in_flight_ns").get<uint64_t>(), std::numeric_limits<uint64_t>::max());
}

TEST(EventJson, AttributesAreOneObject) {
  const std::vector<Attribute> attributes = {
      {.key = "step", .type = AttributeType::kInt, .bits = static_cast<uint64_t>(int64_t{-4})},
      {.key = "ok", .type = AttributeType::kBool, .bits = 1},
      {.key = "loss", .type = AttributeType::kFloat, .bits = std::bit_cast<uint64_t>(0.25)},
      {.key = "nan", .type = AttributeType::kFloat, .bits = std::bit_cast<uint64_t>(std::nan(""))},
      {.key = "who", .type = AttributeType::kString, .text = "a\"b"},
      {.key = "new", .type = static_cast<AttributeType>(200)},
      {.key = "step", .type = AttributeType::kInt, .bits = 5}};
  const std::string text = Json({kEnvelope, Mark{.label = "m", .fields = attributes}});
  EXPECT_EQ(text.find("\"step\""), text.rfind("\"step\""));
  const auto fields = nlohmann::json::parse(text).at("fields");
  EXPECT_EQ(fields,
            nlohmann::json::parse(R"({"ok":true,"loss":0.25,"nan":null,"who":"a\"b","new":null,"step":5})"));
}

TEST(EventJson, ListsOfStructsAndOfValues) {
  const std::vector<OpSample> ops = {
      {.name = "K_1", .symbol = "main", .type = OpType::kDispatch, .count = 2}};
  const auto json = nlohmann::json::parse(Json({kEnvelope, CbOps{.cb_id = CbId{1}, .ops = ops}}));
  EXPECT_EQ(
      json.at("ops"),
      nlohmann::json::parse(
          R"([{"name":"K_1","symbol":"main","type":"dispatch","gpu_ns":0,"count":2,"precision":"op"}])"));
  const std::vector<Text> argv = {"a", "b"};
  EXPECT_EQ(nlohmann::json::parse(Json({kEnvelope, PythonSidecarHello{.argv = argv}})).at("argv"),
            nlohmann::json::parse(R"(["a","b"])"));
}

TEST(EventJson, TextIsEscapedAndAlwaysValidUtf8) {
  EXPECT_EQ(JsonText("a\"b\\c\n\t\r\x01\x1f"), R"("a\"b\\c\n\t\r\u0001\u001f")");
  EXPECT_EQ(JsonText("h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80"),
            "\"h\xC3\xA9 \xE2\x82\xAC \xF0\x9F\x98\x80\"");
  // Stray, cut off, overlong, surrogate, too large.
  for (const std::string_view bad : {"\x80", "\xC3", "\xC0\xAF", "\xE0\x80\x80", "\xED\xA0\x80",
                                     "\xF0\x80\x80\x80", "\xF4\x90\x80\x80", "\xFF", "\xE2\x82"}) {
    const std::string text = JsonText(bad);
    EXPECT_NE(text.find("\xEF\xBF\xBD"), std::string::npos);
    EXPECT_TRUE(nlohmann::json::accept(text)) << text;
  }
  EXPECT_EQ(JsonText(std::string_view("a\0b", 3)), R"("a\u0000b")");
}

TEST(EventJson, UnknownKindsShowNumberAndBytes) {
  const std::vector<std::byte> bytes = {std::byte{0}, std::byte{0xAF}};
  const auto json = nlohmann::json::parse(Json({kEnvelope, Opaque{.kind_number = 901, .bytes = bytes}}));
  EXPECT_EQ(json.at("kind"), "Kind#901");
  EXPECT_EQ(json.at("payload_hex"), "00af");
}

void ExpectDistinctKeys(const std::string& text) {
  std::set<std::string> keys;
  const auto no_key_twice = [&](int depth, nlohmann::json::parse_event_t parsed, nlohmann::json& value) {
    if (depth == 1 && parsed == nlohmann::json::parse_event_t::key) {
      EXPECT_TRUE(keys.insert(value.get<std::string>()).second) << text;
    }
    return true;
  };
  EXPECT_TRUE(nlohmann::json::parse(text, no_key_twice).is_object());
}

// A field called like a key of the envelope would make two of one key.
TEST(EventJson, EveryKindHasDistinctKeysAndItsName) {
  std::vector<Payload> payloads;
#define KIND(number, name, source, naming) payloads.emplace_back(name{});
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
  for (const Payload& payload : payloads) {
    const std::string text = Json({kEnvelope, payload});
    ExpectDistinctKeys(text);
    const std::string name(KindName(Api::kVulkan, KindOf(payload)).view());
    EXPECT_EQ(nlohmann::json::parse(text).at("kind"), name);
  }
}

}  // namespace
}  // namespace smeltr::event
