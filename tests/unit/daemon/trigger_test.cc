#include "daemon/trigger.h"

#include <gtest/gtest.h>
#include <signal.h>

#include "base/clock.h"

namespace smeltr::daemon {
namespace {

std::optional<Trigger> Find(const event::Payload& payload, event::Api api = event::Api::kVulkan,
                            uint32_t pid = 7) {
  return FindTrigger({{.ts_ns = 99, .pid = pid, .api = api}, payload});
}

void ExpectTrigger(const std::optional<Trigger>& found, TriggerClass trigger_class, TriggerScope scope,
                   uint32_t pid = 0) {
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->trigger_class, trigger_class);
  EXPECT_EQ(found->scope, scope);
  EXPECT_EQ(found->pid, pid);
  EXPECT_EQ(found->ts_ns, 99U);
  EXPECT_FALSE(found->text.empty());
}

TEST(Trigger, AFailedCommandBuffer) {
  event::CbCompleted completed{
      .status = event::CbStatus::kError, .error_code = -4, .error_domain = "VkResult"};
  ExpectTrigger(Find(completed), TriggerClass::kGpuError, TriggerScope::kSession);
  EXPECT_NE(Find(completed)->text.find("VkResult error -4"), std::string::npos);
  completed.error_code = 0;
  EXPECT_FALSE(Find(completed).has_value());
  completed = {.status = event::CbStatus::kAbandoned, .error_code = -4};
  EXPECT_FALSE(Find(completed).has_value());
  completed.status = event::CbStatus::kCompleted;
  EXPECT_FALSE(Find(completed).has_value());
  EXPECT_FALSE(MayTrigger(completed)) << "the usual case costs nothing";
}

TEST(Trigger, ACommandBufferThatDoesNotEnd) {
  ExpectTrigger(Find(event::CbWarning{.elapsed_ns = 5 * kNsPerSecond}), TriggerClass::kGpuHang,
                TriggerScope::kSession);
  EXPECT_FALSE(Find(event::CbWarning{.elapsed_ns = 5 * kNsPerSecond - 1}).has_value());
}

TEST(Trigger, CallsThatLoseTheDeviceOrItsMemory) {
  const auto call = [](event::Api api, int64_t code) {
    return Find(event::ApiError{.call = "f", .error_code = code, .error_name = "E"}, api);
  };
  ExpectTrigger(call(event::Api::kVulkan, -4), TriggerClass::kGpuError, TriggerScope::kSession);
  ExpectTrigger(call(event::Api::kVulkan, -2), TriggerClass::kOutOfMemory, TriggerScope::kSession);
  ExpectTrigger(call(event::Api::kVulkan, -1), TriggerClass::kOutOfMemory, TriggerScope::kSession);
  ExpectTrigger(call(event::Api::kCuda, 2), TriggerClass::kOutOfMemory, TriggerScope::kSession);
  ExpectTrigger(call(event::Api::kCuda, 700), TriggerClass::kGpuError, TriggerScope::kSession);
  for (const int64_t code : {-3, -5, 1, 2, 0}) EXPECT_FALSE(call(event::Api::kVulkan, code).has_value());
  for (const int64_t code : {-4, -2, 1, 100}) EXPECT_FALSE(call(event::Api::kCuda, code).has_value());
}

TEST(Trigger, SignalsThatAreCrashes) {
  for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT, SIGTRAP, SIGSYS}) {
    const auto number = static_cast<uint32_t>(signal);
    ExpectTrigger(Find(event::SignalCaught{.signal = number}), TriggerClass::kCrash, TriggerScope::kSession);
    ExpectTrigger(Find(event::ProcessExit{.exit_code = -1, .term_signal = number}), TriggerClass::kCrash,
                  TriggerScope::kMember, 7);
  }
  for (const int signal : {0, SIGINT, SIGTERM, SIGHUP, SIGPIPE, SIGUSR1, 99}) {
    const auto number = static_cast<uint32_t>(signal);
    EXPECT_FALSE(Find(event::SignalCaught{.signal = number}).has_value()) << signal;
    EXPECT_FALSE(Find(event::ProcessExit{.exit_code = 1, .term_signal = number}).has_value()) << signal;
  }
}

TEST(Trigger, AKillCountsOnlyWithEvidence) {
  const auto kill = Find(event::ProcessExit{.exit_code = -1, .term_signal = SIGKILL});
  ExpectTrigger(kill, TriggerClass::kMemoryKill, TriggerScope::kMember, 7);
  EXPECT_TRUE(kill->needs_memory_evidence);
  EXPECT_FALSE(Find(event::ProcessExit{.exit_code = -1, .term_signal = SIGSEGV})->needs_memory_evidence);
}

TEST(Trigger, MemoryKillsNameTheirVictim) {
  ExpectTrigger(Find(event::OomKill{.killed_pid = 12, .killed_name = "python"}), TriggerClass::kMemoryKill,
                TriggerScope::kMember, 12);
  ExpectTrigger(Find(event::JetsamKill{.killed_pid = 13}), TriggerClass::kMemoryKill, TriggerScope::kMember,
                13);
  EXPECT_FALSE(Find(event::JetsamKill{}).has_value()) << "nobody's";
}

TEST(Trigger, GpuFaultsAreOfAProcessOrOfTheDevice) {
  ExpectTrigger(Find(event::GpuFault{.code = 31, .text = "Xid", .target_pid = 12}), TriggerClass::kGpuFault,
                TriggerScope::kMember, 12);
  ExpectTrigger(Find(event::GpuFault{.code = 79, .text = "fallen off the bus"}), TriggerClass::kGpuFault,
                TriggerScope::kDevice);
}

TEST(Trigger, WhatOthersReport) {
  ExpectTrigger(Find(event::MlxPanicTriggered{.condition = "nan"}), TriggerClass::kPanic,
                TriggerScope::kSession);
  ExpectTrigger(Find(event::CrashReportEmitted{.crashed_pid = 5}), TriggerClass::kCrash,
                TriggerScope::kMember, 5);
  EXPECT_FALSE(Find(event::CrashReportEmitted{.path = "/x"}).has_value());
  ExpectTrigger(Find(event::MachException{.target_pid = 6}), TriggerClass::kCrash, TriggerScope::kMember, 6);
  ExpectTrigger(Find(event::VmSample{.pressure = "critical"}), TriggerClass::kMemoryPressure,
                TriggerScope::kMachine);
  EXPECT_FALSE(Find(event::VmSample{.pressure = "warning"}).has_value());
}

TEST(Trigger, OtherKindsAreNotEvenLookedAt) {
  EXPECT_FALSE(MayTrigger(event::Mark{}));
  EXPECT_FALSE(MayTrigger(event::CbCommitted{}));
  EXPECT_FALSE(MayTrigger(event::ModuleEntered{}));
  EXPECT_FALSE(MayTrigger(event::Opaque{}));
  EXPECT_TRUE(MayTrigger(event::DeviceInfo{})) << "it tells whose device faults are about";
  EXPECT_FALSE(Find(event::DeviceInfo{}).has_value());
}

TEST(Trigger, TextsOfStrangersAreMadeSafe) {
  const std::string hostile = "\x1b[2J" + std::string(5000, 'x');
  const auto found = Find(event::MlxPanicTriggered{.condition = std::string_view(hostile)});
  EXPECT_EQ(found->text.find('\x1b'), std::string::npos);
  EXPECT_LT(found->text.size(), 400U);
}

TEST(Trigger, ClassesHaveNames) {
  EXPECT_EQ(Name(TriggerClass::kGpuError), "gpu-error");
  EXPECT_EQ(Name(TriggerClass::kRequest), "request");
  EXPECT_EQ(Name(static_cast<TriggerClass>(77)), "unknown");
}

}  // namespace
}  // namespace smeltr::daemon
