#include "launch/inject.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace smeltr::launch {
namespace {

Injection MakeInjection() {
  Injection injection{"/h", "/h/run/s", "/shm/r", "token", {}, true};
  injection.hook = {"/h/lib/1", "/h/lib/1/libsmeltr_hook.so", "/h/lib/1/vulkan/implicit_layer.d"};
  return injection;
}

// The value of the variable; "<unset>", or "<twice>" when two entries could be read differently.
std::string Value(const std::vector<std::string>& environment, const std::string& name) {
  std::string value = "<unset>";
  for (const std::string& entry : environment) {
    if (entry.starts_with(name + "=")) value = value == "<unset>" ? entry.substr(name.size() + 1) : "<twice>";
  }
  return value;
}

TEST(ChildEnvironment, HasWhatTheHookNeeds) {
  const auto environment = ChildEnvironment({"PATH=/bin"}, MakeInjection());
  EXPECT_EQ(Value(environment, "PATH"), "/bin");
  EXPECT_EQ(Value(environment, "SMELTR_HOME"), "/h");
  EXPECT_EQ(Value(environment, "SMELTR_SOCKET"), "/h/run/s");
  EXPECT_EQ(Value(environment, "SMELTR_RING_DIR"), "/shm/r");
  EXPECT_EQ(Value(environment, "SMELTR_SCOPE_TOKEN"), "token");
  EXPECT_EQ(Value(environment, "SMELTR_AUTOLOAD"), "1");
  EXPECT_EQ(Value(environment, "SMELTR_HOOK_LIBRARY"), "/h/lib/1/libsmeltr_hook.so");
  EXPECT_EQ(Value(environment, "SMELTR_VULKAN_LAYER"), "1");
  EXPECT_EQ(Value(environment, "XDG_DATA_DIRS"), "/h/lib/1:/usr/local/share:/usr/share");
  EXPECT_EQ(Value(environment, "VK_IMPLICIT_LAYER_PATH"), "<unset>");
}

TEST(ChildEnvironment, KeepsWhatTheUserSet) {
  const auto environment = ChildEnvironment(
      {"XDG_DATA_DIRS=/nix/share:/x", "VK_IMPLICIT_LAYER_PATH=/mine", "GGML_VK_DEBUG_MARKERS=0"},
      MakeInjection());
  EXPECT_EQ(Value(environment, "XDG_DATA_DIRS"), "/h/lib/1:/nix/share:/x");
  EXPECT_EQ(Value(environment, "VK_IMPLICIT_LAYER_PATH"), "/mine:/h/lib/1/vulkan/implicit_layer.d");
  EXPECT_EQ(Value(environment, "GGML_VK_DEBUG_MARKERS"), "0");
}

TEST(ChildEnvironment, EmptyListsCountAsUnset) {
  const auto environment = ChildEnvironment({"XDG_DATA_DIRS=", "VK_IMPLICIT_LAYER_PATH="}, MakeInjection());
  EXPECT_EQ(Value(environment, "XDG_DATA_DIRS"), "/h/lib/1:/usr/local/share:/usr/share");
  EXPECT_EQ(Value(environment, "VK_IMPLICIT_LAYER_PATH"), "");
}

TEST(ChildEnvironment, InnerRecordingReplacesTheOuter) {
  Injection outer = MakeInjection();
  outer.ring_directory = "/shm/outer";
  const auto first = ChildEnvironment({"SMELTR_SESSION_NAME=n", "VK_IMPLICIT_LAYER_PATH=/mine"}, outer);
  const auto second = ChildEnvironment(first, MakeInjection());
  EXPECT_EQ(Value(second, "SMELTR_RING_DIR"), "/shm/r");
  EXPECT_EQ(Value(second, "XDG_DATA_DIRS"), "/h/lib/1:/usr/local/share:/usr/share");
  EXPECT_EQ(Value(second, "VK_IMPLICIT_LAYER_PATH"), "/mine:/h/lib/1/vulkan/implicit_layer.d");
  EXPECT_EQ(Value(second, "SMELTR_SESSION_NAME"), "<unset>");

  Injection no_hook = MakeInjection();
  no_hook.gpu_hook = false;
  const auto inner = ChildEnvironment(first, no_hook);
  EXPECT_EQ(Value(inner, "SMELTR_VULKAN_LAYER"), "<unset>");
  EXPECT_EQ(Value(inner, "SMELTR_RING_DIR"), "/shm/r");
  EXPECT_EQ(Value(inner, "SMELTR_HOOK_LIBRARY"), "/h/lib/1/libsmeltr_hook.so");
}

TEST(UnrecordedEnvironment, HasNoTraceOfAnOuterRecording) {
  const auto recorded = ChildEnvironment({"A=1", "SMELTR_HOOK_NO_OPS=1"}, MakeInjection());
  const auto environment = UnrecordedEnvironment(recorded);
  for (const char* name : {"SMELTR_RING_DIR", "SMELTR_SCOPE_TOKEN", "SMELTR_AUTOLOAD", "SMELTR_HOOK_LIBRARY",
                           "SMELTR_VULKAN_LAYER"}) {
    EXPECT_EQ(Value(environment, name), "<unset>") << name;
  }
  EXPECT_EQ(Value(environment, "A"), "1");
  EXPECT_EQ(Value(environment, "SMELTR_HOOK_NO_OPS"), "1");
}

TEST(UnknownVariables, FindsTheMisspelt) {
  EXPECT_EQ(UnknownVariables({"SMELTR_HOMES=/x", "SMELTR_HOME=/y", "SMELTRX=1", "A=SMELTR_B=1", "SMELTR_="}),
            (std::vector<std::string>{"SMELTR_", "SMELTR_HOMES"}));
}

}  // namespace
}  // namespace smeltr::launch
