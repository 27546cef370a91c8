// What was said in a session besides figures: marks, and what the system told of crashes and kills.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "analysis/event_source.h"

namespace smeltr::faces {

// Rows kept of each list, the earliest.
inline constexpr size_t kMaxNoteRows = 1000;

struct MarkNote {
  uint64_t ts_ns = 0;
  uint32_t pid = 0;  // 0: from outside, `smeltr mark`.
  std::string label;
  std::string fields;  // "n=3, lr=0.01"
};

struct CrashNote {
  uint64_t ts_ns = 0;
  uint32_t pid = 0;         // Whom it is about; 0: not told.
  std::string source;       // "kernel", "crash report", "memory kill", "log".
  std::string text;         // As it was said.
  std::string report_path;  // Of a crash report's file; else empty.
};

struct SessionNotes {
  std::vector<MarkNote> marks;   // By time.
  uint64_t mark_count = 0;       // Of all of them.
  std::vector<CrashNote> crash;  // By time; what came twice is there once.
};

SessionNotes CollectNotes(const analysis::EventSource& source);

}  // namespace smeltr::faces
