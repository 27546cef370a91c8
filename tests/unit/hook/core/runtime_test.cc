#include "hook/core/runtime.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "fake/recorded_child.h"
#include "hook/core/scopes.h"

namespace smeltr::hook {
namespace {

using fake::Ending;
using fake::EventsOf;
using fake::InChild;
using fake::ScratchDirectory;

// A recording: small rings, so that a test's directory stays small.
fake::EnvironmentVariables Recording(const ScratchDirectory& directory,
                                     fake::EnvironmentVariables more = {}) {
  more.emplace_back("SMELTR_RING_DIR", directory.path());
  more.emplace_back("SMELTR_RING_BLOCKS", "16");
  return more;
}

TEST(Runtime, OutsideARecordingItDoesNothing) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild({}, [] {
    Emit(event::Api::kNone, event::HeapFree{});
    return !EnsureStarted() && !Active() && PushScope({.name = "x"}) == event::ScopeId{};
  }));
  EXPECT_TRUE(directory.Rings().empty());
}

TEST(Runtime, SaysHelloFirst) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    const bool before = Active();
    return EnsureStarted() && EnsureStarted() && Active() && !before;
  }));
  ASSERT_EQ(directory.Rings().size(), 1U);
  std::vector<std::string> kinds;
  fake::ReadRing(directory.Rings()[0], [&](const event::Event& event) {
    const auto& hello = std::get<event::HookHello>(event.payload);
    EXPECT_EQ(hello.executable.view, std::filesystem::read_symlink("/proc/self/exe").string());
    EXPECT_FALSE(hello.version.view.empty());
    EXPECT_GT(hello.start_time_ticks, 0U);
    kinds.emplace_back("hello");
  });
  EXPECT_EQ(kinds.size(), 1U);
}

TEST(Runtime, IsSwitchedOffByTheEnvironment) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory, {{"SMELTR_HOOK_DISABLE", "1"}}), [] { return !EnsureStarted(); }));
  EXPECT_TRUE(
      InChild(Recording(directory, {{"SMELTR_HOOK_DISABLE", "yes"}}), [] { return !EnsureStarted(); }));
  EXPECT_TRUE(directory.Rings().empty());
  EXPECT_TRUE(InChild(Recording(directory, {{"SMELTR_HOOK_DISABLE", "0"}}), [] { return EnsureStarted(); }));
  EXPECT_TRUE(InChild(Recording(directory, {{"SMELTR_HOOK_DISABLE", ""}}), [] { return EnsureStarted(); }));
}

TEST(Runtime, ReadsItsSettings) {
  ScratchDirectory directory;
  const auto settings = [](bool ops, bool exact_ops) {
    return [=] {
      return EnsureStarted() && CurrentSettings().ops == ops && CurrentSettings().exact_ops == exact_ops;
    };
  };
  EXPECT_TRUE(InChild(Recording(directory), settings(true, false)));
  EXPECT_TRUE(InChild(Recording(directory, {{"SMELTR_HOOK_NO_OPS", "1"}}), settings(false, false)));
  EXPECT_TRUE(InChild(Recording(directory, {{"SMELTR_HOOK_NO_OPS", "0"}}), settings(true, false)));
  EXPECT_TRUE(InChild(Recording(directory, {{"SMELTR_HOOK_DISPATCH_BOUNDARY", "1"}}), settings(true, true)));
}

TEST(Runtime, WithoutARingItIsInert) {
  EXPECT_TRUE(InChild({{"SMELTR_RING_DIR", "/nonexistent/rings"}}, [] {
    Emit(event::Api::kNone, event::HeapFree{});
    return !EnsureStarted() && !Active() && !EnsureStarted();
  }));
}

TEST(Runtime, ThreadsThatStartItTogetherShareOneRing) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    std::atomic<int> active{0};
    std::vector<std::thread> threads;
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&] {
        active += EnsureStarted() ? 1 : 0;
        Emit(event::Api::kNone, event::HeapFree{});
      });
    }
    for (auto& thread : threads) thread.join();
    return active == 8;
  }));
  ASSERT_EQ(directory.Rings().size(), 1U);
  EXPECT_EQ(EventsOf<event::HeapFree>(directory.Rings()[0], [](const auto&) { return 1; }).size(), 8U);
}

TEST(Runtime, SaysGoodbyeAtANormalExitOnly) {
  for (const Ending ending : {Ending::kExit, Ending::kImmediately}) {
    ScratchDirectory directory;
    EXPECT_TRUE(InChild(Recording(directory), [] { return EnsureStarted(); }, ending));
    ring::Reader reader(ring::Segment::Map(directory.Rings().at(0).c_str()).value());
    EXPECT_EQ(reader.closed(), ending == Ending::kExit);
  }
}

TEST(Runtime, AForkedChildHasItsOwnRingAndLeavesTheParentsAlone) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    if (!EnsureStarted()) return false;
    EmitMark("parent before", {});
    PushScope({.name = "parent's scope"});
    const uint32_t generation = Generation();
    const bool child_ok = InChild(
        {},
        [generation] {
          if (Active() || CurrentScope() != event::ScopeId{}) return false;
          EmitMark("lost", {});
          if (!EnsureStarted() || Generation() == generation) return false;
          EmitMark("child", {});
          PopScope();  // Of the parent: nothing happens.
          PushScope({.name = "child's scope"});
          PopScope();
          return true;
        },
        Ending::kExit);
    EmitMark("parent after", {});
    PopScope();
    return child_ok;
  }));
  ASSERT_EQ(directory.Rings().size(), 2U);
  std::map<std::vector<std::string>, bool> rings;
  for (const std::string& path : directory.Rings()) {
    auto labels = EventsOf<event::Mark>(path, [](const auto& mark) { return std::string(mark.label.view); });
    ring::Reader reader(ring::Segment::Map(path.c_str()).value());
    rings[labels] = reader.closed();
  }
  const std::map<std::vector<std::string>, bool> expected{{{"parent before", "parent after"}, false},
                                                          {{"child"}, true}};
  EXPECT_EQ(rings, expected);
}

TEST(Runtime, IdsAreUniqueAndRiseInEachThread) {
  constexpr size_t kThreads = 4;
  std::vector<std::vector<uint64_t>> ids(kThreads);
  std::vector<std::thread> threads;
  for (auto& own : ids) {
    threads.emplace_back([&own] {
      for (int i = 0; i < 1'000; ++i) own.push_back(NextId());
    });
  }
  for (auto& thread : threads) thread.join();
  std::set<uint64_t> all;
  for (const auto& own : ids) {
    EXPECT_TRUE(std::ranges::is_sorted(own));
    all.insert(own.begin(), own.end());
  }
  EXPECT_EQ(all.size(), kThreads * 1'000);
  EXPECT_FALSE(all.contains(0));
}

TEST(Runtime, SkipsAreReportedAtPowersOfTwo) {
  ScratchDirectory directory;
  EXPECT_TRUE(InChild(Recording(directory), [] {
    EnsureStarted();
    for (int i = 0; i < 100; ++i) Skip(event::Api::kVulkan, event::SkipReason::kNoTimestamps, "family 2");
    Skip(event::Api::kVulkan, event::SkipReason::kTableFull);
    return true;
  }));
  const auto counts = EventsOf<event::HookSkipped>(
      directory.Rings().at(0), [](const auto& skipped) { return std::pair(skipped.reason, skipped.count); });
  std::vector<std::pair<event::SkipReason, uint64_t>> expected;
  for (uint64_t count = 1; count <= 64; count *= 2)
    expected.emplace_back(event::SkipReason::kNoTimestamps, count);
  expected.emplace_back(event::SkipReason::kTableFull, 1);
  EXPECT_EQ(counts, expected);
}

}  // namespace
}  // namespace smeltr::hook
