#include "ipc/message.h"

#include <gtest/gtest.h>

namespace smeltr::ipc {
namespace {

TEST(Message, FinishSurvivesTheTripWithAbsentFieldsAbsent) {
  Finish finish;
  finish.session_id = "0f";
  finish.term_signal = 11;
  finish.core_dumped = true;
  finish.max_rss_bytes = UINT64_MAX;
  const auto back = DecodeRequest(Encode(Request(finish)));
  ASSERT_TRUE(back.has_value()) << back.error().text();
  const auto& copy = std::get<Finish>(*back);
  EXPECT_EQ(copy.session_id, "0f");
  EXPECT_EQ(copy.exit_code, std::nullopt);
  EXPECT_EQ(copy.term_signal, 11);
  EXPECT_TRUE(copy.core_dumped);
  EXPECT_EQ(copy.max_rss_bytes, UINT64_MAX);
}

TEST(Message, ArgumentsThatAreNoTextStillTravel) {
  Reserve reserve;
  reserve.argv = {"cat", "caf\xE9", "\xE2\x82\xAC"};
  const auto back = DecodeRequest(Encode(Request(reserve)));
  ASSERT_TRUE(back.has_value()) << back.error().text();
  EXPECT_EQ(std::get<Reserve>(*back).argv, (std::vector<std::string>{"cat", "caf\uFFFD", "\xE2\x82\xAC"}));
}

TEST(Message, RefusalKeepsItsCode) {
  const auto back = DecodeReply(Encode(Reply(Refusal{ErrorCode::kNoSpace, "disk full"})));
  ASSERT_TRUE(back.has_value());
  EXPECT_EQ(std::get<Refusal>(*back).code, ErrorCode::kNoSpace);
  EXPECT_EQ(std::get<Refusal>(*back).text, "disk full");
}

TEST(Message, UnknownOpIsToldFromABadOne) {
  EXPECT_EQ(DecodeRequest(R"({"op":"Teleport"})").error().code(), ErrorCode::kUnsupported);
  for (const char* text :
       {"", "[]", "{", R"({"op":7})", R"({"op":"Attach","pid":"12"})", R"({"op":"Attach","pid":-1})",
        R"({"op":"Attach","pid":4294967296})", R"({"op":"Reserve","argv":"ls"})",
        R"({"op":"Reserve","argv":["ls",1]})", R"({"op":"Finish","exit_code":1.5})"}) {
    EXPECT_EQ(DecodeRequest(text).error().code(), ErrorCode::kInvalidArgument) << text;
  }
}

TEST(Message, UnknownFieldsAreIgnored) {
  const auto request = DecodeRequest(R"({"op":"Cancel","session_id":"a","colour":[1,{}]})");
  ASSERT_TRUE(request.has_value());
  EXPECT_EQ(std::get<Cancel>(*request).session_id, "a");
}

TEST(Message, DeepNestingIsNotFatal) {
  const std::string deep(200'000, '[');
  EXPECT_EQ(DecodeRequest(deep).error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(DecodeRequest(R"({"op":"Cancel","x":)" + deep + std::string(200'000, ']') + "}").has_value(),
            true);
}

}  // namespace
}  // namespace smeltr::ipc
