#include "daemon/bus.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "ipc/stream.h"

namespace smeltr::daemon {
namespace {

constexpr const char* kA = "0a1b2c3d-0000-4000-8000-00000000000a";
constexpr const char* kB = "0a1b2c3d-0000-4000-8000-00000000000b";

class BusTest : public ::testing::Test {
 protected:
  SubscriberId Add(const ipc::Subscribe& filter = {}) {
    const auto id = bus_.Add(filter, [this] { ++ready_; }, 0);
    EXPECT_TRUE(id.has_value());
    return id.value_or(0);
  }
  void Publish(const char* session, uint64_t seq, uint32_t pid = 1, std::string_view label = "m") {
    event::Event event;
    event.envelope.pid = pid;
    event.payload = event::Mark{label, {}};
    bus_.Publish(session, event, seq);
  }
  // Everything that waits, in words: "a:1" an event, "gap 2-3 x2", "closed".
  std::vector<std::string> TakeAll(SubscriberId id) {
    std::vector<std::string> all;
    while (const auto message = bus_.Take(id)) {
      const auto item = ipc::DecodeStreamItem(*message);
      EXPECT_TRUE(item.has_value());
      if (!item.has_value()) continue;
      if (const auto* batch = std::get_if<ipc::EventBatch>(&*item)) {
        EXPECT_TRUE(batch
                        ->ForEach([&](const event::Event& event) {
                          all.push_back(batch->session_id().substr(35) + ":" +
                                        std::to_string(event.envelope.seq));
                        })
                        .has_value());
      } else {
        all.push_back(Words(std::get<ipc::Notice>(*item)));
      }
    }
    return all;
  }
  static std::string Words(const ipc::Notice& notice) {
    if (const auto* gap = std::get_if<ipc::Gap>(&notice)) {
      return "gap " + std::to_string(gap->first_missing_seq) + "-" + std::to_string(gap->last_missing_seq) +
             " x" + std::to_string(gap->count);
    }
    if (std::holds_alternative<ipc::SessionClosed>(notice)) return "closed";
    if (std::holds_alternative<ipc::SessionOpened>(notice)) return "opened";
    if (std::holds_alternative<ipc::Heartbeat>(notice)) return "heartbeat";
    return "goodbye";
  }
  using Words_ = std::vector<std::string>;

  Bus bus_;
  int ready_ = 0;
};

TEST_F(BusTest, EventsComeInOrderAndWithoutDelayAfterAPass) {
  const SubscriberId id = Add();
  Publish(kA, 1);
  Publish(kA, 2);
  Publish(kB, 1);
  EXPECT_EQ(ready_, 0);
  bus_.Flush(1);
  EXPECT_EQ(ready_, 1);
  EXPECT_EQ(TakeAll(id), (Words_{"a:1", "a:2", "b:1"}));
  Publish(kA, 3);
  bus_.Flush(2);
  EXPECT_EQ(ready_, 2) << "called again after everything was taken";
  EXPECT_EQ(TakeAll(id), Words_{"a:3"});
}

TEST_F(BusTest, FiltersHoldBackTheRest) {
  ipc::Subscribe filter;
  filter.session_ids = {kA};
  filter.kinds = {"Mark"};
  filter.pids = {7};
  const SubscriberId id = Add(filter);
  Publish(kA, 1, 7);
  Publish(kA, 2, 8);
  Publish(kB, 1, 7);
  event::Event other;
  other.envelope.pid = 7;
  other.payload = event::SessionStarted{};
  bus_.Publish(kA, other, 3);
  bus_.Opened({kB, "", "scoped", ""});
  bus_.Flush(1);
  EXPECT_EQ(TakeAll(id), Words_{"a:1"});
}

TEST_F(BusTest, UnknownKindsAreRefused) {
  ipc::Subscribe filter;
  filter.kinds = {"Nonsense"};
  const auto id = bus_.Add(filter, [] {}, 0);
  ASSERT_FALSE(id.has_value());
  EXPECT_EQ(id.error().code(), ErrorCode::kInvalidArgument);
}

TEST_F(BusTest, SlowSubscriberLosesTheNewestAndIsToldWhich) {
  const SubscriberId slow = Add();
  const SubscriberId fast = Add();
  const std::string label(4000, 'x');
  uint64_t seq = 0;
  size_t taken = 0;
  while (seq < 4000) {
    Publish(kA, ++seq, 1, label);
    bus_.Flush(1);
    taken += TakeAll(fast).size();
  }
  EXPECT_EQ(taken, 4000U) << "one that keeps up is not hurt by another";
  Words_ got = TakeAll(slow);
  ASSERT_GT(got.size(), 1000U);
  ASSERT_LT(got.size(), 4000U);
  const std::string last = "a:" + std::to_string(got.size());
  EXPECT_EQ(got.back(), last);
  const uint64_t first_missing = got.size() + 1;
  // Also without another event the gap is told.
  bus_.Flush(2);
  const std::string gap =
      "gap " + std::to_string(first_missing) + "-4000 x" + std::to_string(4000 - first_missing + 1);
  EXPECT_EQ(TakeAll(slow), Words_{gap});
  Publish(kA, 4001);
  bus_.Flush(3);
  EXPECT_EQ(TakeAll(slow), Words_{"a:4001"});
}

TEST_F(BusTest, GapComesBeforeWhatFollowsIt) {
  const SubscriberId id = Add();
  const std::string label(4000, 'x');
  for (uint64_t seq = 1; seq <= 4000; ++seq) Publish(kA, seq, 1, label);
  TakeAll(id);
  Publish(kA, 4001);
  bus_.Closed({kA, "exit", 4001});
  bus_.Flush(1);
  const Words_ got = TakeAll(id);
  ASSERT_EQ(got.size(), 3U);
  EXPECT_TRUE(got[0].starts_with("gap ")) << got[0];
  EXPECT_EQ(got[1], "a:4001");
  EXPECT_EQ(got[2], "closed");
}

TEST_F(BusTest, SilenceIsFilledWithHeartbeats) {
  const SubscriberId id = Add();
  bus_.Poll(4'000'000'000, {{kA}, {12}});
  EXPECT_EQ(TakeAll(id), Words_{});
  bus_.Poll(5'000'000'000, {{kA}, {12}});
  EXPECT_EQ(TakeAll(id), Words_{"heartbeat"});
  bus_.Poll(6'000'000'000, {{kA}, {12}});
  EXPECT_EQ(TakeAll(id), Words_{});
}

TEST_F(BusTest, GoodbyeComesLast) {
  const SubscriberId id = Add();
  Publish(kA, 1);
  bus_.Goodbye("signal 15");
  EXPECT_EQ(TakeAll(id), (Words_{"a:1", "goodbye"}));
}

TEST_F(BusTest, SubscribersAreLimited) {
  for (size_t i = 0; i < Bus::kMaxSubscribers; ++i) Add();
  EXPECT_EQ(bus_.Add({}, [] {}, 0).error().code(), ErrorCode::kUnavailable);
}

}  // namespace
}  // namespace smeltr::daemon
