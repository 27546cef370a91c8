#include "hook/core/scopes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "fake/recorded_child.h"
#include "hook/core/runtime.h"

namespace smeltr::hook {
namespace {

using event::Raw;
using event::ScopeId;
using fake::ScratchDirectory;

// Scope events as lines: "+id parent depth name" and "-id", ids numbered in order of appearance. Empties the
// ring.
std::vector<std::string> ScopeLines(const std::string& path) {
  std::vector<std::string> lines;
  std::vector<ScopeId> seen{ScopeId{}};
  const auto number = [&seen](ScopeId id) {
    const auto at = std::ranges::find(seen, id) - seen.begin();
    if (at == static_cast<ptrdiff_t>(seen.size())) seen.push_back(id);
    return std::to_string(at);
  };
  fake::ReadRing(path, [&](const event::Event& event) {
    if (const auto* entered = std::get_if<event::ModuleEntered>(&event.payload)) {
      const std::string parent = number(entered->parent_call_id);
      lines.push_back("+" + number(entered->module_call_id) + " " + parent + " " +
                      std::to_string(entered->depth) + " " + std::string(entered->qualname.view));
    } else if (const auto* returned = std::get_if<event::ModuleReturned>(&event.payload)) {
      lines.push_back("-" + number(returned->module_call_id));
    } else if (std::holds_alternative<event::HookSkipped>(event.payload)) {
      lines.emplace_back("skipped");
    }
  });
  return lines;
}

class ScopesTest : public ::testing::Test {
 protected:
  void Record(const std::function<bool()>& body) {
    EXPECT_TRUE(fake::InChild({{"SMELTR_RING_DIR", directory_.path()}, {"SMELTR_RING_BLOCKS", "64"}},
                              [&] { return EnsureStarted() && body(); }));
  }
  std::vector<std::string> Lines() { return ScopeLines(directory_.Rings().at(0)); }

  ScratchDirectory directory_;
};

TEST_F(ScopesTest, NestAndKnowTheirParents) {
  Record([] {
    const ScopeId outer = PushScope({.name = "outer"});
    const ScopeId inner = PushScope({.name = "inner"});
    bool ok = CurrentScope() == inner && CurrentDepth() == 2 && outer != inner;
    PopScope();
    ok = ok && CurrentScope() == outer;
    PushScope({.name = "second"});
    PopScope();
    PopScope();
    return ok && CurrentScope() == ScopeId{} && CurrentDepth() == 0;
  });
  const std::vector<std::string> expected{"+1 0 0 outer", "+2 1 1 inner", "-2", "+3 1 1 second", "-3", "-1"};
  EXPECT_EQ(Lines(), expected);
}

TEST_F(ScopesTest, APopWithoutAPushIsNothing) {
  Record([] {
    PopScope();
    PushScope({.name = "one"});
    PopScope();
    PopScope();
    PopScope();
    return CurrentDepth() == 0;
  });
  const std::vector<std::string> expected{"+1 0 0 one", "-1"};
  EXPECT_EQ(Lines(), expected);
}

TEST_F(ScopesTest, TooDeepOnesAreCountedAndBalanced) {
  Record([] {
    constexpr uint32_t kTooMany = 10;
    for (uint32_t i = 0; i < kMaxDepth + kTooMany; ++i) PushScope({.name = "s"});
    const ScopeId deepest = CurrentScope();
    bool ok = CurrentDepth() == kMaxDepth;
    for (uint32_t i = 0; i < kTooMany; ++i) PopScope();
    ok = ok && CurrentScope() == deepest;
    for (uint32_t i = 0; i < kMaxDepth; ++i) PopScope();
    return ok && CurrentDepth() == 0;
  });
  const std::vector<std::string> lines = Lines();
  EXPECT_EQ(std::ranges::count(lines, "skipped"), 4) << "at the 1st, 2nd, 4th and 8th of 10";
  EXPECT_EQ(lines.size(), 2 * kMaxDepth + 4);
  EXPECT_EQ(lines.back(), "-1");
}

TEST_F(ScopesTest, BelongToTheirThread) {
  Record([] {
    const ScopeId own = PushScope({.name = "main"});
    bool ok = true;
    for (int i = 0; i < 20; ++i) {
      std::thread([&] {
        ok = ok && CurrentScope() == ScopeId{};
        const ScopeId theirs = PushScope({.name = "worker"});
        ok = ok && theirs != own && CurrentScope() == theirs;  // And ends with its scope still open.
      }).join();
    }
    return ok && CurrentScope() == own;
  });
}

TEST_F(ScopesTest, DetachedOnesLeaveTheThreadAlone) {
  Record([] {
    const ScopeId own = PushScope({.name = "own"});
    const ScopeId label = EnterDetachedScope({.name = "label"}, own, 1);
    const bool ok = CurrentScope() == own && CurrentDepth() == 1;
    LeaveDetachedScope(label);
    LeaveDetachedScope(ScopeId{});
    return ok;
  });
  const std::vector<std::string> expected{"+1 0 0 own", "+2 1 1 label", "-2"};
  EXPECT_EQ(Lines(), expected);
}

TEST_F(ScopesTest, CarryFields) {
  Record([] {
    const event::Attribute field{.key = "batch", .type = event::AttributeType::kInt, .bits = 8, .text = {}};
    PushScope({.name = "step",
               .class_name = "Decoder",
               .origin = event::ScopeOrigin::kPython,
               .fields = {&field, 1}});
    EmitMark("here", {&field, 1});
    return true;
  });
  const auto entered = fake::EventsOf<event::ModuleEntered>(directory_.Rings().at(0), [](const auto& fields) {
    return std::string(fields.class_name.view) + " " + std::string(event::EnumName(fields.origin)) + " " +
           std::string(fields.fields[0].key.view) + "=" + std::to_string(fields.fields[0].bits);
  });
  EXPECT_EQ(entered, std::vector<std::string>{"Decoder python batch=8"});
}

}  // namespace
}  // namespace smeltr::hook
