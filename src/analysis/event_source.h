// Where the analysis gets its events from: a session file, or a list in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "event/event.h"
#include "session/reader.h"

namespace smeltr::analysis {

struct TimeRange {
  uint64_t begin_ns = 0;  // Both 0 when there are no events.
  uint64_t end_ns = 0;
};

class EventSource {
 public:
  virtual ~EventSource() = default;
  // Every event of the given kinds, in no particular order. Texts and lists live during the call only.
  virtual void ForEach(const std::vector<event::Kind>& kinds,
                       const std::function<void(const event::Event&)>& visit) const = 0;
  // Over the events of all kinds.
  virtual TimeRange range() const = 0;
};

// The reader must outlive this.
class SessionSource final : public EventSource {
 public:
  explicit SessionSource(const session::Reader& reader) : reader_(reader) {}
  void ForEach(const std::vector<event::Kind>& kinds,
               const std::function<void(const event::Event&)>& visit) const override {
    reader_.ForEach(kinds, visit);
  }
  TimeRange range() const override { return {reader_.summary().min_ts_ns, reader_.summary().max_ts_ns}; }

 private:
  const session::Reader& reader_;
};

}  // namespace smeltr::analysis
