// Where the analysis gets its events from: a session file, or a list in memory.
#pragma once

#include <cstdint>
#include <functional>
#include <span>

#include "event/event.h"
#include "session/reader.h"

namespace smeltr::analysis {

struct TimeRange {
  uint64_t begin_ns = 0;  // Both 0 when there are no events.
  uint64_t end_ns = 0;
};

class EventSource {
 public:
  // `rows` is an array of the kind's struct, as long as the envelopes.
  using VisitBatch = std::function<void(std::span<const event::Envelope> envelopes, const void* rows)>;

  virtual ~EventSource() = default;
  // Every event of one kind, in no particular order. Texts and lists live during the call only.
  virtual void ForEachBatch(event::Kind kind, const VisitBatch& visit) const = 0;
  // Of what was recorded: over the events of all kinds, within what the session is known to cover.
  virtual TimeRange range() const = 0;
  // Of what is older only some events are there: the rest was cut away. 0: nothing was.
  virtual uint64_t whole_from_ns() const { return 0; }

  // visit(const event::Envelope&, const E&) for every event of the kind E.
  template <typename E, typename F>
  void ForEach(F&& visit) const {
    ForEachBatch(E::kKind, [&](std::span<const event::Envelope> envelopes, const void* rows) {
      const E* row = static_cast<const E*>(rows);
      for (const event::Envelope& envelope : envelopes) visit(envelope, *row++);
    });
  }
};

// A recording that a new daemon took over continues in another file: a session has one reader a file.
// The readers must outlive this. `limits` of the range of its events; 0: none.
class SessionSource final : public EventSource {
 public:
  explicit SessionSource(std::span<const session::Reader> readers, TimeRange limits = {},
                         uint64_t whole_from_ns = 0)
      : readers_(readers), limits_(limits), whole_from_ns_(whole_from_ns) {}
  void ForEachBatch(event::Kind kind, const VisitBatch& visit) const override;
  TimeRange range() const override;
  uint64_t whole_from_ns() const override { return whole_from_ns_; }

 private:
  std::span<const session::Reader> readers_;
  TimeRange limits_;
  uint64_t whole_from_ns_;
};

}  // namespace smeltr::analysis
