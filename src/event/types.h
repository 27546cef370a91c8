// The types that fields of kinds.def may have: distinct ids, named enums, text and lists.
// No heap: Text and List are views, owned by whoever made the event, valid while they keep the bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <type_traits>

namespace smeltr::event {

// --- ids: one 64-bit counter a process, never reused, 0 = none. A ScopeId is not a CbId. ---
enum class CbId : uint64_t {};
enum class QueueId : uint64_t {};
enum class DeviceId : uint64_t {};
enum class ScopeId : uint64_t {};
enum class HeapId : uint64_t {};
enum class BufferId : uint64_t {};
enum class TextureId : uint64_t {};

template <typename T>
concept IdType = std::is_enum_v<T> && sizeof(T) == sizeof(uint64_t);

constexpr uint64_t Raw(IdType auto id) { return static_cast<uint64_t>(id); }

// --- text and lists ---
struct Text {
  constexpr Text() = default;
  constexpr Text(std::string_view characters) : view(characters) {}  // NOLINT(google-explicit-constructor)
  constexpr Text(const char* characters) : view(characters) {}       // NOLINT(google-explicit-constructor)
  // Already in the string table of the ring it will be written to (see ring/writer.h), under `id`.
  constexpr Text(std::string_view characters, uint32_t id) : view(characters), interned(id) {}

  constexpr bool empty() const { return view.empty() && interned == 0; }
  friend constexpr bool operator==(const Text& a, const Text& b) { return a.view == b.view; }

  std::string_view view;
  uint32_t interned = 0;
};

template <typename T>
using List = std::span<const T>;

// --- enums. Each value's JSON text stands in the table behind it; values are wire format: append only. ---
template <typename E>
struct EnumNames;  // Specialised below: static constexpr std::string_view kNames[].

#define SMELTR_ENUM_NAMES(Type, ...)                            \
  template <>                                                   \
  struct EnumNames<Type> {                                      \
    static constexpr std::string_view kNames[] = {__VA_ARGS__}; \
  }

enum class Api : uint8_t { kNone, kMetal, kCuda, kVulkan };
SMELTR_ENUM_NAMES(Api, "", "Metal", "Cuda", "Vulkan");

// Numbers are those of the earlier sessions' source field, and stay.
enum class Source : uint8_t {
  kMark,
  kSystem,
  kIoReport,
  kVm,
  kProc,
  kOsLog,
  kThermal,
  kMachExc,
  kCrashReport,
  kHook,
  kSidecar
};
SMELTR_ENUM_NAMES(Source, "Mark", "System", "IoReport", "Vm", "Proc", "OsLog", "Thermal", "MachExc",
                  "CrashReport", "Hook", "Sidecar");

enum class AttributeType : uint8_t { kBool, kInt, kFloat, kString };
SMELTR_ENUM_NAMES(AttributeType, "bool", "int", "float", "string");

enum class OpType : uint8_t {
  kOther,
  kDispatch,
  kDispatchIndirect,
  kDraw,
  kCopy,
  kFill,
  kClear,
  kBlit,
  kResolve,
  kRayTrace,
  kAccelerationStructure,
  kVideo,
  kSecondary,
  kRenderPass
};
SMELTR_ENUM_NAMES(OpType, "other", "dispatch", "dispatch_indirect", "draw", "copy", "fill", "clear", "blit",
                  "resolve", "ray_trace", "acceleration_structure", "video", "secondary", "render_pass");

// How well an op's gpu_ns is known. All are scaled so that a CB's ops add up to the CB's own span.
enum class Precision : uint8_t {
  kOp,       // Timestamps directly around this op.
  kGroup,    // Timestamps around a group of ops that had no barrier between them, shared out.
  kProfile,  // This CB was not sampled: shares learned from sampled CBs.
  kUniform,  // Nothing is known: equal shares.
};
SMELTR_ENUM_NAMES(Precision, "op", "group", "profile", "uniform");

enum class CbType : uint8_t { kCommands, kSparse, kLaunch, kCopy, kFill, kGraph };
SMELTR_ENUM_NAMES(CbType, "commands", "sparse", "launch", "copy", "fill", "graph");

enum class CbStatus : uint8_t {
  kCompleted,
  kError,      // The interface reported a failure of this CB, or lost the device with it.
  kAbandoned,  // Its device was destroyed, or its submit call failed.
};
SMELTR_ENUM_NAMES(CbStatus, "completed", "error", "abandoned");

// Where a CB's GPU span comes from.
enum class TimeSource : uint8_t {
  kGpu,   // Device timestamps around the CB, on the session clock.
  kHost,  // No usable timestamps: from the order of completions as seen by the host. An upper bound.
};
SMELTR_ENUM_NAMES(TimeSource, "gpu", "host");

enum class MemSampleAt : uint8_t {
  kCbCommitted,
  kCbCompleted,
  kScopeEnter,
  kScopeExit,
  kAllocation,
  kPeriodic
};
SMELTR_ENUM_NAMES(MemSampleAt, "cb_committed", "cb_completed", "scope_enter", "scope_exit", "allocation",
                  "periodic");

enum class ScopeOrigin : uint8_t { kProgram, kPython, kDebugLabel, kNvtx };
SMELTR_ENUM_NAMES(ScopeOrigin, "program", "python", "debug_label", "nvtx");

enum class SkipReason : uint8_t {
  kOther,
  kDisabledByUser,      // SMELTR_HOOK_NO_OPS and the like.
  kNoTimestamps,        // The queue family has none (timestampValidBits 0).
  kSimultaneousUse,     // CB may be in flight several times: no queries in it.
  kReusedRecording,     // Recorded once, submitted often: never sampled per op.
  kResultLost,          // A resubmission overwrote results not read yet.
  kFeatureUnavailable,  // The device lacks, or would not grant, what is needed.
  kCalibration,         // No way to put GPU timestamps on the session clock.
  kSamplingReduced,     // Per-op sampling stayed under its cost budget by sampling less.
  kTableFull,           // An internal fixed-size table is full.
  kNestedQueries,       // Secondary or protected command buffer: no queries in it.
};
SMELTR_ENUM_NAMES(SkipReason, "other", "disabled_by_user", "no_timestamps", "simultaneous_use",
                  "reused_recording", "result_lost", "feature_unavailable", "calibration", "sampling_reduced",
                  "table_full", "nested_queries");

#undef SMELTR_ENUM_NAMES

template <typename E>
concept NamedEnum = std::is_enum_v<E> && sizeof(E) == 1;

template <NamedEnum E>
inline constexpr size_t kEnumSize = sizeof(EnumNames<E>::kNames) / sizeof(std::string_view);

// "unknown" for values of a newer writer.
template <NamedEnum E>
constexpr std::string_view EnumName(E value) {
  const auto index = static_cast<size_t>(value);
  return index < kEnumSize<E> ? EnumNames<E>::kNames[index] : std::string_view("unknown");
}

}  // namespace smeltr::event
