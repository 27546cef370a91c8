#include "daemon/incident.h"

#include <algorithm>
#include <string>

#include "base/clock.h"

namespace smeltr::daemon {
namespace {

constexpr uint64_t kHourNs = 3600 * kNsPerSecond;

}  // namespace

bool Incidents::CoolingDown(std::string_view session_id, TriggerClass trigger_class, uint64_t now_ns) const {
  const auto found = cool_until_ns_.find({std::string(session_id), trigger_class});
  return found != cool_until_ns_.end() && now_ns < found->second;
}

bool Incidents::PressureTooSoon(const Trigger& trigger, uint64_t now_ns) {
  if (trigger.trigger_class != TriggerClass::kMemoryPressure) return false;
  if (last_pressure_ns_ != 0 && now_ns - last_pressure_ns_ < limits_.pressure_ns) return true;
  last_pressure_ns_ = now_ns;
  return false;
}

void Incidents::AddTo(Incident& incident, Trigger trigger) const {
  ++incident.trigger_count;
  if (incident.triggers.size() < limits_.listed_triggers) incident.triggers.push_back(std::move(trigger));
}

// Incidents that nothing joins any more make room for the next; their classes cool down.
void Incidents::Retire(uint64_t now_ns) {
  std::erase_if(incidents_, [&](const Entry& entry) {
    const uint64_t end_ns = entry.incident.opened_ns + limits_.join_ns;
    return entry.given && entry.given_count == entry.incident.trigger_count && now_ns >= end_ns;
  });
  std::erase_if(cool_until_ns_, [&](const auto& entry) { return now_ns >= entry.second; });
}

Incidents::Verdict Incidents::Note(std::string_view session_id, Trigger trigger, uint64_t now_ns) {
  Retire(now_ns);
  const TriggerClass trigger_class = trigger.trigger_class;
  const auto open = std::ranges::find_if(incidents_, [&](const Entry& entry) {
    return entry.incident.session_id == session_id && now_ns < entry.incident.opened_ns + limits_.join_ns;
  });
  if (open != incidents_.end()) {
    const uint64_t end_ns = open->incident.opened_ns + limits_.join_ns;
    cool_until_ns_[{std::string(session_id), trigger_class}] = end_ns + limits_.cool_down_ns;
    AddTo(open->incident, std::move(trigger));
    return Verdict::kJoined;
  }
  if (CoolingDown(session_id, trigger_class, now_ns) || !WithinLimits(now_ns) ||
      PressureTooSoon(trigger, now_ns)) {
    ++suppressed_count_;
    return Verdict::kSuppressed;
  }
  Entry entry;
  entry.incident.session_id = session_id;
  entry.incident.first_class = trigger_class;
  entry.incident.opened_ns = now_ns;
  AddTo(entry.incident, std::move(trigger));
  incidents_.push_back(std::move(entry));
  opened_ns_.push_back(now_ns);
  cool_until_ns_[{std::string(session_id), trigger_class}] = now_ns + limits_.join_ns + limits_.cool_down_ns;
  return Verdict::kOpened;
}

std::vector<Incident> Incidents::Take(const std::function<bool(const Incident&)>& wanted) {
  std::vector<Incident> taken;
  for (Entry& entry : incidents_) {
    if (entry.given || !wanted(entry.incident)) continue;
    entry.given = true;
    entry.given_count = entry.incident.trigger_count;
    taken.push_back(entry.incident);
  }
  return taken;
}

std::vector<Incident> Incidents::TakeDue(uint64_t now_ns) {
  return Take([&](const Incident& incident) { return now_ns >= incident.opened_ns + limits_.post_roll_ns; });
}

std::vector<Incident> Incidents::TakeOpen(std::string_view session_id) {
  return Take([&](const Incident& incident) { return incident.session_id == session_id; });
}

std::vector<Incident> Incidents::TakeAllOpen() {
  return Take([](const Incident&) { return true; });
}

std::vector<Incident> Incidents::TakeGrown(uint64_t now_ns, std::string_view closing_session) {
  std::vector<Incident> grown;
  for (Entry& entry : incidents_) {
    const bool over =
        now_ns >= entry.incident.opened_ns + limits_.join_ns || entry.incident.session_id == closing_session;
    if (!entry.given || !over || entry.given_count == entry.incident.trigger_count) continue;
    entry.given_count = entry.incident.trigger_count;
    grown.push_back(entry.incident);
  }
  Retire(now_ns);
  return grown;
}

void Incidents::NoteWritten(uint64_t bytes, uint64_t now_ns) { written_.push_back({now_ns, bytes}); }

bool Incidents::WithinBytes(uint64_t now_ns) {
  while (!written_.empty() && now_ns - written_.front().at_ns >= kHourNs) written_.pop_front();
  uint64_t bytes = 0;
  for (const Written& one : written_) bytes += one.bytes;
  return bytes < limits_.bytes_per_hour;
}

bool Incidents::WithinLimits(uint64_t now_ns) {
  while (!opened_ns_.empty() && now_ns - opened_ns_.front() >= kHourNs) opened_ns_.pop_front();
  return opened_ns_.size() < limits_.dumps_per_hour && WithinBytes(now_ns);
}

}  // namespace smeltr::daemon
