// What a session holds besides GPU time: devices, queues, processes, errors, losses, and the command
// buffers that were in flight when it ended, which after a crash are the suspects.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "analysis/event_source.h"
#include "analysis/timeline.h"

namespace smeltr::analysis {

struct DeviceRow {
  uint32_t pid = 0;
  event::Api api = event::Api::kNone;
  uint64_t device_id = 0;
  std::string name;
  std::string driver;
  std::string api_version;
};

struct QueueRow {
  uint32_t pid = 0;
  event::Api api = event::Api::kNone;
  uint64_t queue_id = 0;
  uint64_t device_id = 0;
  std::string label;
  uint32_t timestamp_valid_bits = 0;
};

struct ProcessRow {
  uint32_t pid = 0;
  uint32_t parent_pid = 0;
  std::string executable;
  bool exited = false;
  int64_t exit_code = 0;
  uint32_t term_signal = 0;
};

// Equal errors are one row, at the time of the first.
struct ErrorRow {
  event::Api api = event::Api::kNone;
  std::string call;
  int64_t error_code = 0;
  std::string error_name;
  uint64_t count = 0;
  uint64_t first_ts_ns = 0;
};

// A completed CB with status error, or a fault or signal, in time order.
struct FailureRow {
  uint64_t ts_ns = 0;
  uint32_t pid = 0;
  std::string text;
};

struct InFlightRow {
  uint32_t pid = 0;
  uint64_t cb_id = 0;
  uint64_t queue_id = 0;
  std::string queue_label;
  std::string scope_path;  // "step/layer/mlp", empty when it carried no scope.
  uint64_t commit_ns = 0;
  uint64_t age_ns = 0;  // At the last event of the session.
};

// Rows kept of each open-ended list; the counts are exact.
inline constexpr size_t kMaxOverviewRows = 1000;

struct Overview {
  TimeRange range;
  CbCounts cbs;
  CaptureLoss loss;
  std::vector<DeviceRow> devices;
  std::vector<QueueRow> queues;
  std::vector<ProcessRow> processes;
  std::vector<ErrorRow> errors;  // By first appearance.
  std::vector<FailureRow> failures;
  uint64_t failure_count = 0;
  std::vector<InFlightRow> in_flight;  // Oldest commit first; cbs.incomplete is their number.
  std::vector<std::string> silent_hooks;
};

Overview ComputeOverview(const EventSource& source);

// "step/layer/mlp"; empty for kNone.
std::string ScopePath(const Timeline& timeline, uint32_t scope);

}  // namespace smeltr::analysis
