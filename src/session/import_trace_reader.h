// A Chrome trace file as a stream of events: {"traceEvents": [...], ...} as torch.profiler and JAX write it,
// or the bare [...] form. One pass, with a window of some MiB, whatever the file's size.
//
// Damage costs the event it is in. Reading goes on at the next '{' from where an event can be read; what lies
// between is noted with its byte offsets. A file that was cut off is read up to there.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "session/import_json.h"
#include "session/import_notes.h"

namespace smeltr::session {

struct TraceArgument {
  std::string_view key;  // Raw, as all texts here: JsonText() makes characters of them.
  JsonValue value;
};

// Views are valid during the call.
struct TraceEvent {
  static constexpr size_t kMaxArguments = 64;  // Those beyond are left out.

  char phase = 0;  // "ph"; 0 = none: no event.
  std::string_view name;
  std::string_view category;
  std::optional<int64_t> ts_ns;
  int64_t duration_ns = 0;
  JsonValue pid;
  JsonValue tid;
  std::span<const TraceArgument> arguments;

  const JsonValue* Find(std::string_view key) const;
};

struct TraceReadOptions {
  ImportNotes* notes = nullptr;  // Required.
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = nullptr;
  // Every event that has a phase.
  std::function<void(const TraceEvent& event)> on_event;
  // Every other key of the object form.
  std::function<void(std::string_view key, const JsonValue& value)> on_property;
};

// kCorrupt for what is no JSON at all, kUnsupported for a gzip file. A file without events is none of these.
Result<void> ReadTrace(const std::filesystem::path& file, const TraceReadOptions& options);

}  // namespace smeltr::session
