// What an import keeps of a trace's event until all of them are in order: a few numbers and texts, as bytes.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "event/event.h"
#include "session/byte_buffer.h"

namespace smeltr::session {

enum class TraceType : uint8_t {
  kScope,       // Begin and duration.
  kScopeBegin,  // Its end is an event of its own.
  kScopeEnd,
  kLaunch,   // A call that starts GPU work, or waits for it.
  kDevice,   // A kernel, copy or fill on the GPU.
  kUntyped,  // Begin and duration; whether host or GPU, the process's name tells.
  kMemory,   // GPU memory taken or given back.
  kMark,
};

enum class TraceScope : uint8_t { kAnnotation, kOp, kPython, kOther };

struct TraceNumbers {
  TraceType type = TraceType::kScope;
  TraceScope scope = TraceScope::kOther;
  event::OpType op = event::OpType::kDispatch;
  uint8_t reserved = 0;
  uint32_t pid = 0;
  uint32_t tid = 0;
  uint32_t device = 0;
  int64_t ts_ns = 0;  // As the trace counts.
  int64_t duration_ns = 0;
  uint64_t stream = 0;
  uint64_t correlation = 0;  // 0 = none.
  std::array<uint32_t, 3> grid{};
  std::array<uint32_t, 3> block{};
  uint64_t address = 0;
  int64_t bytes = 0;        // Negative: given back.
  int64_t total_bytes = 0;  // After that; -1: not told.
};
static_assert(sizeof(TraceNumbers) == 96, "no padding: it is written as it lies");

struct TraceRecord {
  TraceNumbers numbers;
  std::string_view name;
  std::string_view label;
  // At most kMaxAttributes are kept. After Decode they point into `storage`.
  std::span<const event::Attribute> attributes;
};
inline constexpr size_t kMaxAttributes = 32;

void EncodeRecord(const TraceRecord& record, ByteBuffer& out);
// The texts point into `bytes`. False for bytes that EncodeRecord did not make.
bool DecodeRecord(std::span<const std::byte> bytes, std::vector<event::Attribute>& storage,
                  TraceRecord& record);

}  // namespace smeltr::session
