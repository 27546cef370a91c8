// Where the analysis gets its events from: a session file, or a list in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
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

// A recording that a new daemon took over continues in another file: a session has one reader a file.
// The readers must outlive this.
class SessionSource final : public EventSource {
 public:
  explicit SessionSource(std::span<const session::Reader> readers) : readers_(readers) {}
  void ForEach(const std::vector<event::Kind>& kinds,
               const std::function<void(const event::Event&)>& visit) const override;
  TimeRange range() const override;

 private:
  std::span<const session::Reader> readers_;
};

}  // namespace smeltr::analysis
