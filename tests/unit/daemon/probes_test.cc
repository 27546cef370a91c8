#include "daemon/probes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "daemon/probe_cost.h"
#include "daemon/probe_queue.h"

namespace smeltr::daemon {
namespace {

using probe::Health;
using probe::Status;
using namespace std::chrono_literals;

constexpr uint64_t kMs = 1'000'000;

struct FakeProbe : probe::Probe {
  using Reading = std::function<Status(const probe::Context&, probe::Sink&)>;
  explicit FakeProbe(Reading reading) : reading_(std::move(reading)) {}
  std::string_view name() const override { return "fake"; }
  uint64_t period_ns() const override { return 20 * kMs; }
  uint64_t deadline_ns() const override { return deadline_; }
  bool Wanted(const probe::Context& context) const override { return always_ || !context.recordings.empty(); }
  Status Sample(const probe::Context& context, probe::Sink& sink) override { return reading_(context, sink); }

  Reading reading_;
  uint64_t deadline_ = 60 * kNsPerSecond;
  bool always_ = true;
};

// A gate that a reading waits at; open for good once opened.
class Gate {
 public:
  void Open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

event::Event Mark(std::string_view label) {
  event::Event event;
  event.payload = event::Mark{.label = label};
  return event;
}

std::unique_ptr<FakeProbe> Make(FakeProbe::Reading reading) {
  return std::make_unique<FakeProbe>(std::move(reading));
}

class ProbesTest : public testing::Test {
 protected:
  void Start(std::unique_ptr<FakeProbe> probe) {
    std::vector<std::unique_ptr<probe::Probe>> all;
    all.push_back(std::move(probe));
    StartAll(std::move(all));
  }
  void StartAll(std::vector<std::unique_ptr<probe::Probe>> all) {
    probes_ = std::make_unique<Probes>(std::move(all), [this] { ++wakes_; });
    probes_->Start();
  }
  // What came so far: "label" or "session:label" of marks, "=health reason" of health.
  const std::vector<std::string>& Collect() {
    probes_->Poll(MonotonicNowNs());
    probes_->Take([this](std::string_view session_id, const event::Event& event) {
      if (const auto* mark = std::get_if<event::Mark>(&event.payload)) {
        seen_.push_back(session_id.empty() ? std::string(mark->label.view)
                                           : std::string(session_id) + ":" + std::string(mark->label.view));
      }
      if (const auto* health = std::get_if<event::ProbeHealth>(&event.payload)) {
        seen_.push_back("=" + std::string(health->state.view) + " " + std::string(health->reason.view));
      }
    });
    return seen_;
  }
  bool WaitFor(const std::function<bool()>& condition) {
    for (const auto until = std::chrono::steady_clock::now() + 30s;
         std::chrono::steady_clock::now() < until;) {
      if (condition()) return true;
      std::this_thread::sleep_for(1ms);
    }
    return false;
  }
  bool WaitForSeen(const std::string& text) {
    return WaitFor([&] {
      Collect();
      return CountSeen(text) > 0;
    });
  }
  long CountSeen(const std::string& text) { return std::ranges::count(seen_, text); }

  std::atomic<int> wakes_ = 0;
  std::vector<std::string> seen_;
  std::unique_ptr<Probes> probes_;
};

TEST_F(ProbesTest, EventsArriveWithTheirSessionAndHealthIsToldOnce) {
  Start(Make([](const probe::Context&, probe::Sink& sink) {
    sink.Emit(Mark("machine"));
    sink.EmitTo("s1", Mark("process"));
    return Status{};
  }));
  ASSERT_TRUE(WaitFor([this] { return Collect().size() > 20; }));
  EXPECT_EQ(seen_[0], "machine");
  EXPECT_EQ(seen_[1], "s1:process");
  EXPECT_EQ(seen_[2], "=ok ");
  EXPECT_EQ(CountSeen("=ok "), 1);
  EXPECT_GT(wakes_, 0);
  const auto states = probes_->states();
  ASSERT_EQ(states.size(), 1U);
  EXPECT_EQ(states[0].name, "fake");
  EXPECT_EQ(states[0].health, Health::kOk);
  EXPECT_GT(states[0].readings, 5U);
}

TEST_F(ProbesTest, HealthFollowsTheProbe) {
  std::atomic<int> reading = 0;
  Start(Make([&](const probe::Context&, probe::Sink&) {
    ++reading;
    if (reading > 3 && reading < 6) return Status{Health::kDegraded, "half"};
    return Status{};
  }));
  ASSERT_TRUE(WaitFor([&] { return reading > 8; }));
  Collect();
  EXPECT_EQ(seen_, (std::vector<std::string>{"=ok ", "=degraded half", "=ok "}));
  probes_.reset();
}

TEST_F(ProbesTest, ThrowingIsContainedAndTriedAgain) {
  std::atomic<int> reading = 0;
  Start(Make([&](const probe::Context&, probe::Sink&) -> Status {
    if (++reading == 1) throw std::runtime_error("boom");
    if (reading == 2) throw 7;  // NOLINT(hicpp-exception-baseclass): anything may come.
    return {};
  }));
  EXPECT_TRUE(WaitForSeen("=ok "));
  EXPECT_EQ(seen_,
            (std::vector<std::string>{"=failed the reading failed: boom",
                                      "=failed the reading failed with an unknown exception", "=ok "}));
  probes_.reset();
}

TEST_F(ProbesTest, OneThatHangsIsReportedAndTheOthersGoOn) {
  const auto gate = std::make_shared<Gate>();
  const auto first = std::make_shared<std::atomic<bool>>(true);
  auto hanging = Make([=](const probe::Context&, probe::Sink& sink) {
    if (first->exchange(false)) gate->Wait();
    sink.Emit(Mark("returned"));
    return Status{};
  });
  hanging->deadline_ = 20 * kMs;
  std::vector<std::unique_ptr<probe::Probe>> all;
  all.push_back(std::move(hanging));
  all.push_back(Make([](const probe::Context&, probe::Sink& sink) {
    sink.Emit(Mark("other"));
    return Status{};
  }));
  StartAll(std::move(all));
  EXPECT_TRUE(WaitForSeen("=failed a reading took longer than 0.0 s and has not returned"));
  const auto others = CountSeen("other");
  EXPECT_TRUE(WaitFor([&] { return Collect(), CountSeen("other") > others + 5; }));
  EXPECT_EQ(probes_->states()[0].health, Health::kFailed);
  EXPECT_EQ(CountSeen("returned"), 0);
  gate->Open();
  EXPECT_TRUE(WaitForSeen("=failed a reading took longer than 0.0 s"));
  // Works again: ok once more, after the other's.
  EXPECT_TRUE(WaitFor([&] { return Collect(), CountSeen("=ok ") == 2; }));
}

TEST_F(ProbesTest, OneThatHangsIsLeftBehindAtTheEnd) {
  const auto gate = std::make_shared<Gate>();
  const auto ended = std::make_shared<std::atomic<bool>>(false);
  const auto inside = std::make_shared<std::atomic<bool>>(false);
  Start(Make([=](const probe::Context&, probe::Sink& sink) {
    *inside = true;
    gate->Wait();
    sink.Emit(Mark("late"));
    *ended = true;
    return Status{};
  }));
  ASSERT_TRUE(WaitFor([&] { return inside->load(); }));
  probes_.reset();
  EXPECT_FALSE(ended->load());
  const int wakes = wakes_;
  gate->Open();
  EXPECT_TRUE(WaitFor([&] { return ended->load(); }));
  EXPECT_EQ(wakes_, wakes);
}

TEST_F(ProbesTest, AFloodIsBoundedAndTheNewestKept) {
  const auto gate = std::make_shared<Gate>();
  const auto done = std::make_shared<std::atomic<bool>>(false);
  Start(Make([=](const probe::Context&, probe::Sink& sink) {
    for (int i = 0; i < 50'000 && !*done; ++i) sink.Emit(Mark(std::to_string(i)));
    *done = true;
    gate->Wait();
    return Status{};
  }));
  ASSERT_TRUE(WaitFor([&] { return done->load(); }));
  Collect();
  EXPECT_EQ(seen_.size(), ProbeQueue::kMaxEvents);
  EXPECT_EQ(seen_.back(), "49999");
  EXPECT_EQ(probes_->dropped_count(), 50'000 - ProbeQueue::kMaxEvents);
  gate->Open();
  probes_.reset();
}

TEST_F(ProbesTest, AnUnwantedProbeWaitsForARecording) {
  auto probe = Make([](const probe::Context& context, probe::Sink& sink) {
    sink.EmitTo(context.recordings.at(0).session_id, Mark("sample"));
    return Status{};
  });
  probe->always_ = false;
  Start(std::move(probe));
  std::this_thread::sleep_for(20ms);
  EXPECT_TRUE(Collect().empty());
  EXPECT_EQ(probes_->states()[0].health, Health::kStarting);
  probe::Recorded recorded;
  recorded.session_id = "s7";
  probes_->SetRecordings({recorded});
  EXPECT_TRUE(WaitForSeen("s7:sample"));
}

TEST(ProbeQueue, LargeEventsAreBoundedTogether) {
  ProbeQueue queue([] {});
  const std::string text(4000, 'x');
  for (int i = 0; i < 2000; ++i) queue.Push({}, Mark(text));
  size_t taken = 0;
  queue.Take([&](std::string_view, const event::Event&) { ++taken; });
  EXPECT_LE(taken * text.size(), ProbeQueue::kMaxBytes);
  EXPECT_EQ(taken + queue.dropped_count(), 2000U);
}

TEST(ProbeQueue, ListsAndTextsSurvive) {
  ProbeQueue queue([] {});
  event::Event event;
  const std::vector<event::Text> flagged(500, event::Text("a"));
  const event::TopProcess top[] = {{.pid = 1, .name = "x", .cpu_pct = 2.5}};
  event.payload = event::ProcTop{.top = top, .flagged = flagged};
  queue.Push("s", event);
  size_t taken = 0;
  queue.Take([&](std::string_view session_id, const event::Event& kept) {
    ++taken;
    EXPECT_EQ(session_id, "s");
    const auto& fields = std::get<event::ProcTop>(kept.payload);
    ASSERT_EQ(fields.flagged.size(), 500U);
    EXPECT_EQ(fields.flagged[499].view, "a");
    EXPECT_EQ(fields.top[0].name.view, "x");
  });
  EXPECT_EQ(taken, 1U);
}

TEST(ProbeQueue, WakesOnceUntilTaken) {
  int wakes = 0;
  ProbeQueue queue([&] { ++wakes; });
  queue.Wake();
  EXPECT_EQ(wakes, 0);
  queue.Push({}, Mark("a"));
  queue.Wake();
  queue.Push({}, Mark("b"));
  queue.Wake();
  EXPECT_EQ(wakes, 1);
  queue.Take([](std::string_view, const event::Event&) {});
  queue.Push({}, Mark("c"));
  queue.Wake();
  EXPECT_EQ(wakes, 2);
  queue.Silence();
  queue.Take([](std::string_view, const event::Event&) {});
  queue.Push({}, Mark("d"));
  queue.Wake();
  EXPECT_EQ(wakes, 2);
}

TEST(ProbeCost, OneThatCostsMoreThanItsShareIsSlowedDown) {
  ProbeCost cost;
  uint64_t now_ns = kNsPerSecond;
  cost.Start(now_ns);
  // The first reading is free: loading a library is paid once.
  cost.Add(now_ns, 900 * kMs);
  EXPECT_EQ(cost.AffordablePeriod(kNsPerSecond), kNsPerSecond);
  for (int i = 0; i < 4; ++i) cost.Add(now_ns += kNsPerSecond, 40 * kMs);
  EXPECT_EQ(cost.AffordablePeriod(kNsPerSecond), 5 * kNsPerSecond);
  EXPECT_TRUE(cost.slowed());
  // Cheaper again: faster, but not at once.
  for (int i = 0; i < 5; ++i) cost.Add(now_ns += kNsPerSecond, 5 * kMs);
  EXPECT_GT(cost.AffordablePeriod(kNsPerSecond), kNsPerSecond);
  for (int i = 0; i < 60; ++i) cost.Add(now_ns += kNsPerSecond, 5 * kMs);
  EXPECT_EQ(cost.AffordablePeriod(kNsPerSecond), kNsPerSecond);
  EXPECT_FALSE(cost.slowed());
}

TEST(ProbeCost, IsThatOfTheLastMinute) {
  ProbeCost cost;
  uint64_t now_ns = kNsPerSecond;
  cost.Start(now_ns);
  EXPECT_EQ(cost.Percent(now_ns), 0);
  for (int i = 0; i < 10; ++i) cost.Add(now_ns += kNsPerSecond, 10 * kMs);
  EXPECT_NEAR(cost.Percent(now_ns), 1, 1e-9);
  for (int i = 0; i < 120; ++i) cost.Add(now_ns += kNsPerSecond, 0);
  EXPECT_EQ(cost.Percent(now_ns), 0);
}

}  // namespace
}  // namespace smeltr::daemon
