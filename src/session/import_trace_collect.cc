#include "session/import_trace_collect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <limits>

#include "util/format.h"

namespace smeltr::session {
namespace {

// Of records of one time: what ends, what holds others, what is held.
enum Rank : uint64_t { kRankEnd, kRankScope, kRankInside, kRankDevice };
constexpr unsigned kRankShift = 62;

enum class Treatment : uint8_t { kScope, kLaunch, kDevice, kUntyped, kLeftOut };
struct Category {
  std::string_view name;
  Treatment treatment;
  TraceScope scope = TraceScope::kOther;
  event::OpType op = event::OpType::kDispatch;
};
// In lower case. torch.profiler's of today, and what they were called before.
constexpr std::array kCategories = {
    Category{"", Treatment::kUntyped},
    Category{"cpu_op", Treatment::kScope, TraceScope::kOp},
    Category{"operator", Treatment::kScope, TraceScope::kOp},
    Category{"user_annotation", Treatment::kScope, TraceScope::kAnnotation},
    Category{"python_function", Treatment::kScope, TraceScope::kPython},
    Category{"kernel", Treatment::kDevice},
    Category{"gpu_memcpy", Treatment::kDevice, TraceScope::kOther, event::OpType::kCopy},
    Category{"memcpy", Treatment::kDevice, TraceScope::kOther, event::OpType::kCopy},
    Category{"gpu_memset", Treatment::kDevice, TraceScope::kOther, event::OpType::kFill},
    Category{"memset", Treatment::kDevice, TraceScope::kOther, event::OpType::kFill},
    Category{"cuda_runtime", Treatment::kLaunch},
    Category{"cuda_driver", Treatment::kLaunch},
    Category{"runtime", Treatment::kLaunch},
    // Views of what is there already, and the profiler's own work.
    Category{"gpu_user_annotation", Treatment::kLeftOut},
    Category{"cuda_sync", Treatment::kLeftOut},
    Category{"overhead", Treatment::kLeftOut},
    Category{"trace", Treatment::kLeftOut},
};

std::string Lowered(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

// Known ones by their table, others are scopes of whoever wrote the trace.
Category FindCategory(std::string_view name) {
  const std::string lower = Lowered(name);
  for (const Category& category : kCategories) {
    if (category.name == lower) return category;
  }
  return {name, Treatment::kScope};
}

// Process and thread "numbers" may be words.
uint32_t NumberOf(const JsonValue& value) {
  if (const auto number = JsonInteger(value.raw); number && *number >= 0) {
    const auto wide = static_cast<uint64_t>(*number);
    return static_cast<uint32_t>(wide ^ wide >> 32);
  }
  uint32_t hash = 2166136261U;
  for (const char c : value.raw) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash | 0x8000'0000U;
}
bool IsProcess(const JsonValue& pid) {
  const auto number = JsonInteger(pid.raw);
  return number && *number >= 0;
}

uint64_t Unsigned(const JsonValue* value, uint64_t otherwise = 0) {
  if (value == nullptr) return otherwise;
  const auto number = JsonInteger(value->raw);
  return number && *number >= 0 ? static_cast<uint64_t>(*number) : otherwise;
}
uint32_t Narrow(uint64_t value) {
  return static_cast<uint32_t>(std::min<uint64_t>(value, std::numeric_limits<uint32_t>::max()));
}

// "stream 7" -> 7
uint64_t LastNumber(std::string_view text) {
  size_t begin = text.size();
  while (begin > 0 && text[begin - 1] >= '0' && text[begin - 1] <= '9') --begin;
  uint64_t number = 0;
  std::from_chars(text.data() + begin, text.data() + text.size(), number);
  return number;
}

// [128, 1, 1]
std::array<uint32_t, 3> Dimensions(const JsonValue* value) {
  std::array<uint32_t, 3> dimensions{};
  if (value == nullptr || value->type != JsonType::kArray) return dimensions;
  JsonCursor cursor(value->raw);
  size_t i = 0;
  cursor.ReadArray([&] {
    JsonValue item;
    if (cursor.Read(item) && i < dimensions.size()) dimensions[i++] = Narrow(Unsigned(&item));
  });
  return dimensions;
}
// "regs:184 grid:128,1,1 block:64,1,1"
std::array<uint32_t, 3> Dimensions(std::string_view details, std::string_view key) {
  std::array<uint32_t, 3> dimensions{};
  size_t at = details.find(key);
  if (at == std::string_view::npos) return dimensions;
  at += key.size();
  for (uint32_t& dimension : dimensions) {
    const auto [end, error] =
        std::from_chars(details.data() + at, details.data() + details.size(), dimension);
    if (error != std::errc()) break;
    at = static_cast<size_t>(end - details.data()) + 1;
    if (at > details.size()) break;
  }
  return dimensions;
}

template <typename M>
void SetName(M& names, const typename M::key_type& key, std::string_view name) {
  if (names.size() >= TraceFacts::kMaxNames && !names.contains(key)) return;
  while (name.ends_with(' ')) name.remove_suffix(1);
  names[key] = std::string(name.substr(0, 200));
}

}  // namespace

bool TraceFacts::is_jax() const {
  return std::ranges::any_of(process_names, [](const auto& process) {
    return process.second.starts_with("/host:CPU") || process.second.starts_with("/device:");
  });
}
std::string_view TraceFacts::Format() const {
  if (is_torch) return "torch.profiler";
  return is_jax() ? "JAX profiler" : "Chrome trace";
}
std::optional<uint32_t> TraceFacts::GpuOf(uint32_t pid) const {
  constexpr std::string_view kGpu = "/device:GPU:";
  const auto process = process_names.find(pid);
  if (process == process_names.end() || !process->second.starts_with(kGpu)) return std::nullopt;
  uint32_t number = 0;
  const std::string_view digits = std::string_view(process->second).substr(kGpu.size());
  std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return number;
}

std::string_view TraceCollector::Text(std::string_view raw) {
  if (raw.find('\\') == std::string_view::npos) return raw;
  if (scratch_used_ == scratch_.size()) scratch_.emplace_back();
  return JsonText(raw, scratch_[scratch_used_++]);
}

void TraceCollector::OnProperty(std::string_view key, const JsonValue& value) {
  if (key == "baseTimeNanoseconds") {
    facts_.base_unix_ns = JsonInteger(value.raw).value_or(0);
  } else if (key == "schemaVersion" || key == "trace_id" || key == "record_shapes") {
    facts_.is_torch = true;
  } else if (key == "cuda_driver_version") {
    const uint64_t version = Unsigned(&value);
    facts_.driver = fmt::format("CUDA driver {}.{}", version / 1000, version % 1000 / 10);
  } else if (key == "deviceProperties" && value.type == JsonType::kArray) {
    JsonCursor cursor(value.raw);
    cursor.ReadArray([&] {
      uint32_t id = 0;
      TraceDevice device;
      std::string scratch;
      cursor.ReadObject([&](std::string_view field) {
        JsonValue item;
        if (!cursor.Read(item)) return;
        if (field == "id") id = Narrow(Unsigned(&item));
        if (field == "name") device.name = std::string(JsonText(item.raw, scratch).substr(0, 200));
        if (field == "totalGlobalMem") device.total_bytes = Unsigned(&item);
      });
      if (facts_.devices.size() < 1024) facts_.devices[id] = std::move(device);
    });
  } else if (key == "distributedInfo" && value.type == JsonType::kObject) {
    JsonCursor cursor(value.raw);
    std::optional<uint64_t> rank;
    uint64_t world_size = 0;
    cursor.ReadObject([&](std::string_view field) {
      JsonValue item;
      if (!cursor.Read(item)) return;
      if (field == "rank") rank = Unsigned(&item);
      if (field == "world_size") world_size = Unsigned(&item);
    });
    if (rank) facts_.ranks = fmt::format("rank {} of {}", *rank, world_size);
  }
}

void TraceCollector::OnEvent(const TraceEvent& event) {
  scratch_used_ = 0;
  attributes_.clear();
  if (event.phase == 'M') return OnMetadata(event);
  if (!event.ts_ns) {
    ++facts_.left_out["events without a time"];
    return;
  }
  record_ = {};
  record_.numbers.ts_ns = *event.ts_ns;
  record_.numbers.duration_ns = event.duration_ns;
  record_.numbers.pid = NumberOf(event.pid);
  record_.numbers.tid = NumberOf(event.tid);
  record_.name = Text(event.name);
  switch (event.phase) {
    case 'X':
    case 'B':
    case 'E':
      return OnSpan(event);
    case 'i':
    case 'I':
    case 'C':
      return OnInstant(event);
    case 's':
    case 't':
    case 'f':
      ++facts_.left_out["flow arrows"];
      return;
    default:
      ++facts_.left_out["events of other phases"];
  }
}

void TraceCollector::OnMetadata(const TraceEvent& event) {
  const JsonValue* name = event.Find("name");
  if (name == nullptr || name->type != JsonType::kString) return;
  const uint32_t pid = NumberOf(event.pid);
  if (event.name == "process_name") SetName(facts_.process_names, pid, Text(name->raw));
  if (event.name == "thread_name") {
    SetName(facts_.thread_names, {pid, NumberOf(event.tid)}, Text(name->raw));
  }
}

void TraceCollector::OnSpan(const TraceEvent& event) {
  const Category category = FindCategory(event.category);
  TraceNumbers& numbers = record_.numbers;
  if (category.treatment == Treatment::kLeftOut || (!IsProcess(event.pid) && !event.pid.raw.empty())) {
    ++facts_.left_out["spans of the profiler itself, and GPU views of scopes"];
    return;
  }
  const JsonValue* correlation = event.Find("correlation");
  if (correlation == nullptr) correlation = event.Find("correlation_id");
  numbers.correlation = Unsigned(correlation);
  // Larger durations first: what holds others begins with them.
  constexpr uint64_t kLongest = (uint64_t{1} << kRankShift) - 1;
  const uint64_t inner = kLongest - std::min(static_cast<uint64_t>(numbers.duration_ns), kLongest);
  if (event.phase != 'X') {
    numbers.type = event.phase == 'B' ? TraceType::kScopeBegin : TraceType::kScopeEnd;
    FillScope(category.name, category.scope);
    FillAttributes(event);
    return Keep(event.phase == 'B' ? uint64_t{kRankScope} << kRankShift : uint64_t{kRankEnd});
  }
  switch (category.treatment) {
    case Treatment::kDevice:
      numbers.type = TraceType::kDevice;
      numbers.op = category.op;
      FillDevice(event);
      return Keep(uint64_t{kRankDevice} << kRankShift);
    case Treatment::kLaunch:
      numbers.type = TraceType::kLaunch;
      return Keep(uint64_t{kRankInside} << kRankShift);
    case Treatment::kUntyped:
      numbers.type = TraceType::kUntyped;
      FillDevice(event);
      numbers.stream = numbers.tid;
      if (numbers.correlation == 0) {
        FillScope(category.name, category.scope);
        FillAttributes(event);
      }
      return Keep(uint64_t{kRankScope} << kRankShift | inner);
    default:
      FillScope(category.name, category.scope);
      FillAttributes(event);
      return Keep(uint64_t{kRankScope} << kRankShift | inner);
  }
}

// Names as people call the thing, what it is as the label, and counters out of the name.
void TraceCollector::FillScope(std::string_view category, TraceScope scope) {
  static constexpr std::array<std::string_view, 4> kLabels = {"annotation", "op", "python", ""};
  std::string_view& name = record_.name;
  record_.numbers.scope = scope;
  record_.label = kLabels[static_cast<size_t>(scope)];
  if (scope == TraceScope::kOther && !category.empty()) record_.label = Text(category);
  constexpr std::string_view kModule = "nn.Module: ";
  constexpr std::string_view kStep = "ProfilerStep#";
  if (name.starts_with(kModule)) {
    record_.label = "nn.Module";
    name.remove_prefix(kModule.size());
  } else if (name.starts_with('$') && category.empty()) {
    // JAX's mark of Python functions.
    record_.numbers.scope = TraceScope::kPython;
    record_.label = kLabels[static_cast<size_t>(TraceScope::kPython)];
    name.remove_prefix(1);
  } else if (name.starts_with(kStep)) {
    attributes_.push_back(
        {.key = "step", .type = event::AttributeType::kInt, .bits = LastNumber(name), .text = {}});
    name = name.substr(0, kStep.size() - 1);
  }
}

void TraceCollector::FillAttributes(const TraceEvent& event) {
  if (const JsonValue* step = event.Find("step_num"); step != nullptr) {
    attributes_.push_back(
        {.key = "step", .type = event::AttributeType::kInt, .bits = Unsigned(step), .text = {}});
  }
}

void TraceCollector::FillDevice(const TraceEvent& event) {
  TraceNumbers& numbers = record_.numbers;
  // torch.profiler's processes of GPU work are the devices.
  numbers.device = Narrow(Unsigned(event.Find("device"), numbers.pid));
  numbers.stream = Unsigned(event.Find("stream"), LastNumber(event.tid.raw));
  numbers.grid = Dimensions(event.Find("grid"));
  numbers.block = Dimensions(event.Find("block"));
  if (const JsonValue* details = event.Find("kernel_details"); details != nullptr) {
    numbers.grid = Dimensions(details->raw, "grid:");
    numbers.block = Dimensions(details->raw, "block:");
  }
  if (const JsonValue* module = event.Find("hlo_module"); module != nullptr) {
    record_.label = Text(module->raw);
  }
  numbers.bytes = static_cast<int64_t>(Unsigned(event.Find("bytes")));
}

void TraceCollector::OnInstant(const TraceEvent& event) {
  if (event.name == "[memory]") return OnMemory(event);
  record_.numbers.type = TraceType::kMark;
  for (const TraceArgument& argument : event.arguments) {
    event::Attribute attribute{
        .key = Text(argument.key), .type = event::AttributeType::kString, .bits = 0, .text = {}};
    const auto whole = JsonInteger(argument.value.raw);
    switch (argument.value.type) {
      case JsonType::kTrue:
      case JsonType::kFalse:
        attribute.type = event::AttributeType::kBool;
        attribute.bits = argument.value.type == JsonType::kTrue ? 1 : 0;
        break;
      case JsonType::kNumber:
        if (argument.value.raw.find_first_of(".eE") == std::string_view::npos && whole) {
          attribute.type = event::AttributeType::kInt;
          attribute.bits = static_cast<uint64_t>(*whole);
        } else {
          attribute.type = event::AttributeType::kFloat;
          attribute.bits = std::bit_cast<uint64_t>(
              JsonReal(argument.value.raw).value_or(std::numeric_limits<double>::quiet_NaN()));
        }
        break;
      default:
        attribute.text = Text(argument.value.raw);
    }
    attributes_.push_back(attribute);
  }
  if (!IsProcess(event.pid)) record_.numbers.pid = record_.numbers.tid = 0;
  Keep(uint64_t{kRankInside} << kRankShift);
}

void TraceCollector::OnMemory(const TraceEvent& event) {
  TraceNumbers& numbers = record_.numbers;
  if (Unsigned(event.Find("Device Type")) == 0) {
    ++facts_.left_out["allocations of CPU memory"];
    return;
  }
  const auto signed_number = [&](std::string_view key) -> std::optional<int64_t> {
    const JsonValue* value = event.Find(key);
    return value == nullptr ? std::nullopt : JsonInteger(value->raw);
  };
  numbers.type = TraceType::kMemory;
  numbers.device = Narrow(Unsigned(event.Find("Device Id")));
  numbers.address = Unsigned(event.Find("Addr"));
  numbers.bytes = signed_number("Bytes").value_or(0);
  numbers.total_bytes = std::max<int64_t>(signed_number("Total Allocated").value_or(-1), -1);
  Keep(uint64_t{kRankInside} << kRankShift);
}

void TraceCollector::Keep(uint64_t rank) {
  TraceNumbers& numbers = record_.numbers;
  // Far from overflowing whatever is added to them.
  constexpr int64_t kFar = int64_t{1} << 61;
  numbers.ts_ns = std::clamp(numbers.ts_ns, -kFar, kFar);
  numbers.duration_ns = std::min(numbers.duration_ns, kFar);
  const int64_t end_ns = numbers.ts_ns + numbers.duration_ns;
  if (record_count_ == 0 || numbers.ts_ns < facts_.first_ns) facts_.first_ns = numbers.ts_ns;
  if (record_count_ == 0 || end_ns > facts_.last_ns) facts_.last_ns = end_ns;
  const bool host = numbers.type == TraceType::kScope || numbers.type == TraceType::kLaunch;
  if (facts_.host_pid == 0 && host) facts_.host_pid = numbers.pid;
  ++record_count_;
  record_.attributes = attributes_;
  bytes_.Clear();
  EncodeRecord(record_, bytes_);
  // GPU work counts when it is done: by then its launch has been seen, even with clocks a little apart.
  const int64_t when_ns = numbers.type == TraceType::kDevice ? end_ns : numbers.ts_ns;
  if (status_.has_value()) status_ = sorter_.Add({.time_ns = when_ns, .rank = rank}, bytes_.view());
}

}  // namespace smeltr::session
