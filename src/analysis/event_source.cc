#include "analysis/event_source.h"

#include <algorithm>

namespace smeltr::analysis {

void SessionSource::ForEachBatch(event::Kind kind, const VisitBatch& visit) const {
  for (const session::Reader& reader : readers_) reader.ForEachBatch(kind, visit);
}

TimeRange SessionSource::range() const {
  TimeRange range;
  bool first = true;
  for (const session::Reader& reader : readers_) {
    const session::Summary& summary = reader.summary();
    if (summary.event_count == 0) continue;
    range.begin_ns = first ? summary.min_ts_ns : std::min(range.begin_ns, summary.min_ts_ns);
    range.end_ns = std::max(range.end_ns, summary.max_ts_ns);
    first = false;
  }
  // Limits that leave nothing are a damaged session's.
  const uint64_t begin_ns = std::max(range.begin_ns, limits_.begin_ns);
  const uint64_t end_ns = limits_.end_ns != 0 ? std::min(range.end_ns, limits_.end_ns) : range.end_ns;
  return begin_ns <= end_ns ? TimeRange{begin_ns, end_ns} : range;
}

}  // namespace smeltr::analysis
