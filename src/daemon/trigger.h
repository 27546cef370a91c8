// Which events say that something went wrong badly enough for a post-mortem.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

#include "event/event.h"

namespace smeltr::daemon {

enum class TriggerClass : uint8_t {
  kGpuError,        // A command buffer failed or the device was lost.
  kGpuHang,         // A command buffer does not end.
  kOutOfMemory,     // A GPU allocation failed.
  kCrash,           // A recorded process died of a fatal signal, or is about to.
  kMemoryKill,      // The system killed it for memory.
  kGpuFault,        // The driver or kernel reports a fault (Xid, reset).
  kPanic,           // The sidecar saw its program give up.
  kMemoryPressure,  // The whole machine is short of memory.
  kRequest,         // Somebody asked.
};
// "gpu-error", "gpu-hang" ...: also the label in the directory's name.
std::string_view Name(TriggerClass trigger_class);

// To whom the trigger must belong for it to be the session's.
enum class TriggerScope : uint8_t {
  kSession,  // The event came from a recorded process itself.
  kMember,   // The process `pid` must be one of the session's.
  kDevice,   // The session must use a GPU.
  kMachine,
};

struct Trigger {
  TriggerClass trigger_class = TriggerClass::kRequest;
  TriggerScope scope = TriggerScope::kSession;
  uint32_t pid = 0;
  uint64_t ts_ns = 0;
  std::string text;                    // "VK_ERROR_DEVICE_LOST in vkQueueSubmit", for people.
  bool needs_memory_evidence = false;  // A SIGKILL: counts when memory was short, else it was somebody's.
};

// The kinds that are worth a look: triggers, and what others need as evidence.
inline constexpr std::array kWatchedKinds = {
    event::Kind::kProcessExit,        event::Kind::kSignalCaught,      event::Kind::kDeviceInfo,
    event::Kind::kCbCompleted,        event::Kind::kCbWarning,         event::Kind::kApiError,
    event::Kind::kGpuFault,           event::Kind::kVmSample,          event::Kind::kMachException,
    event::Kind::kCrashReportEmitted, event::Kind::kJetsamKill,        event::Kind::kOomKill,
    event::Kind::kCgroupMemory,       event::Kind::kMlxPanicTriggered, event::Kind::kCrashHint};

// By index of the payload's type.
template <size_t... kIndexes>
constexpr auto WatchedTable(std::index_sequence<kIndexes...>) {
  return std::array{
      (std::ranges::find(kWatchedKinds, std::variant_alternative_t<kIndexes, event::Payload>::kKind) !=
       kWatchedKinds.end())...};
}
inline constexpr auto kWatched =
    WatchedTable(std::make_index_sequence<std::variant_size_v<event::Payload>>());

// For the append path, a few instructions: false for all that neither triggers nor is evidence.
inline bool MayTrigger(const event::Payload& payload) {
  if (payload.valueless_by_exception() || !kWatched[payload.index()]) return false;
  const auto* completed = std::get_if<event::CbCompleted>(&payload);
  return completed == nullptr || completed->status == event::CbStatus::kError;
}

std::optional<Trigger> FindTrigger(const event::Event& event);

}  // namespace smeltr::daemon
