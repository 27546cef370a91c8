// What the reader of a breakdown must be told besides the figures.
#pragma once

#include "analysis/breakdown.h"

namespace smeltr::analysis {

// Appends to breakdown.notices, the most important first. Needs all other members filled in.
void AddNotices(const Timeline& timeline, Breakdown& breakdown);

// One clause for a reason the hook gave, e.g. "the queue has no timestamps".
std::string_view Describe(event::SkipReason reason);

}  // namespace smeltr::analysis
