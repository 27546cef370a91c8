#include "probe/footprint.h"

#include <algorithm>

#include "probe/proc_text.h"
#include "util/paths.h"

namespace smeltr::probe {
namespace {

constexpr uint64_t kShortestPeriodNs = 50'000'000;
constexpr uint64_t kNsPerMs = 1'000'000;
constexpr uint64_t kLongestPeriodMs = 3'600'000;

}  // namespace

uint64_t FootprintPeriodFromEnvironment() {
  const auto text = Environment("SMELTR_FOOTPRINT_PERIOD_MS");
  if (!text.has_value() || text->find_first_not_of("0123456789") != std::string::npos) {
    return kDefaultFootprintPeriodNs;
  }
  const uint64_t ms = LeadingNumber(*text).value_or(0);
  return ms == 0 || ms > kLongestPeriodMs ? kDefaultFootprintPeriodNs : ms * kNsPerMs;
}

std::vector<const Recorded*> FootprintSchedule::TakeDue(const Context& context) {
  std::vector<const Recorded*> due;
  std::map<std::string, uint64_t, std::less<>> last_ns;
  period_ns_ = 0;
  for (const Recorded& recorded : context.recordings) {
    const uint64_t wanted_ns =
        recorded.footprint_period_ns == 0 ? default_period_ns_ : recorded.footprint_period_ns;
    const uint64_t period_ns = std::max(wanted_ns, kShortestPeriodNs);
    period_ns_ = period_ns_ == 0 ? period_ns : std::min(period_ns_, period_ns);
    const auto known = last_ns_.find(recorded.session_id);
    // Ticks come a little early or late: a tenth of a period is no reason to wait for the next one.
    const bool is_due =
        known == last_ns_.end() || context.now_ns + period_ns / 10 >= known->second + period_ns;
    if (is_due) due.push_back(&recorded);
    last_ns[recorded.session_id] = is_due ? context.now_ns : known->second;
  }
  last_ns_ = std::move(last_ns);
  return due;
}

}  // namespace smeltr::probe
