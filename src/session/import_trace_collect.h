// First pass over a trace: events as the profilers name them become records to be put in order, and what is
// said once, in any place of the file, is gathered (names of processes and threads, devices, clocks).
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "session/import_sorter.h"
#include "session/import_trace_reader.h"
#include "session/import_trace_record.h"

namespace smeltr::session {

struct TraceDevice {
  std::string name;
  uint64_t total_bytes = 0;
};

struct TraceFacts {
  static constexpr size_t kMaxNames = size_t{1} << 16;  // Of each map; those beyond are left out.

  std::map<uint32_t, std::string> process_names;
  std::map<std::pair<uint32_t, uint32_t>, std::string> thread_names;  // By pid, tid.
  std::map<uint32_t, TraceDevice> devices;
  std::string driver;  // "CUDA driver 13.0"
  std::string ranks;   // "rank 3 of 8"
  bool is_torch = false;
  int64_t base_unix_ns = 0;  // Of time 0 of the trace; 0 = not told.
  int64_t first_ns = 0;      // Of all records, as the trace counts.
  int64_t last_ns = 0;
  uint32_t host_pid = 0;  // The first that did something on the host.
  // What is in the trace and has no place in a session, or not enough to it: "flow arrows" and so on.
  std::map<std::string, uint64_t> left_out;

  bool is_jax() const;
  // "torch.profiler", "JAX profiler", "Chrome trace"
  std::string_view Format() const;
  // The number of "/device:GPU:3"; nothing for other processes.
  std::optional<uint32_t> GpuOf(uint32_t pid) const;
};

class TraceCollector {
 public:
  explicit TraceCollector(ImportSorter& sorter) : sorter_(sorter) {}

  void OnEvent(const TraceEvent& event);
  void OnProperty(std::string_view key, const JsonValue& value);

  // The disk's, if it took not all; what follows an error was not kept.
  Result<void> status() const { return status_; }
  TraceFacts& facts() { return facts_; }
  uint64_t record_count() const { return record_count_; }

 private:
  void OnMetadata(const TraceEvent& event);
  void OnSpan(const TraceEvent& event);
  void OnInstant(const TraceEvent& event);
  void OnMemory(const TraceEvent& event);
  void FillScope(std::string_view category, TraceScope scope);
  void FillDevice(const TraceEvent& event);
  void FillAttributes(const TraceEvent& event);
  void Keep(uint64_t rank);
  std::string_view Text(std::string_view raw);

  ImportSorter& sorter_;
  TraceFacts facts_;
  Result<void> status_;
  uint64_t record_count_ = 0;
  // The record under way, and what its texts point to.
  TraceRecord record_;
  std::vector<event::Attribute> attributes_;
  std::deque<std::string> scratch_;  // Views into them stay valid while it grows.
  size_t scratch_used_ = 0;
  ByteBuffer bytes_;
};

}  // namespace smeltr::session
