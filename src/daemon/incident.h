// Which triggers make an incident, and how often: those that belong together join one, and a bad day does not
// fill the disk. Pure policy with the caller's clock; post_mortem.h writes the dumps. Not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "daemon/trigger.h"

namespace smeltr::daemon {

struct IncidentLimits {
  uint64_t post_roll_ns = 2'000'000'000;
  uint64_t join_ns = 30'000'000'000;       // From its first trigger on.
  uint64_t cool_down_ns = 60'000'000'000;  // After that, for the session and the classes it had.
  uint64_t pressure_ns = 600'000'000'000;  // Between two machine-wide incidents.
  uint32_t dumps_per_hour = 10;
  uint64_t bytes_per_hour = uint64_t{2} << 30;
  size_t listed_triggers = 64;
};

struct Incident {
  std::string session_id;
  TriggerClass first_class = TriggerClass::kRequest;
  uint64_t opened_ns = 0;
  std::vector<Trigger> triggers;  // The first ones, up to listed_triggers.
  uint64_t trigger_count = 0;
};

class Incidents {
 public:
  explicit Incidents(const IncidentLimits& limits) : limits_(limits) {}

  enum class Verdict : uint8_t { kOpened, kJoined, kSuppressed };
  // A trigger that is the session's.
  Verdict Note(std::string_view session_id, Trigger trigger, uint64_t now_ns);

  // Incidents to be written now: their post-roll is over. Each is given once.
  std::vector<Incident> TakeDue(uint64_t now_ns);
  // Those of a session that closes, or of all: not waiting any longer.
  std::vector<Incident> TakeOpen(std::string_view session_id);
  std::vector<Incident> TakeAllOpen();
  // Incidents whose time to join is over, or whose session is `closing_session`, and that grew since they
  // were given: their lists, complete.
  std::vector<Incident> TakeGrown(uint64_t now_ns, std::string_view closing_session = {});

  // Something was written; counts for the limit of the hour.
  void NoteWritten(uint64_t bytes, uint64_t now_ns);
  bool WithinBytes(uint64_t now_ns);

  uint64_t suppressed_count() const { return suppressed_count_; }
  bool idle() const { return incidents_.empty(); }

 private:
  struct Entry {
    Incident incident;
    bool given = false;
    uint64_t given_count = 0;
  };
  struct Written {
    uint64_t at_ns;
    uint64_t bytes;
  };
  std::vector<Incident> Take(const std::function<bool(const Incident&)>& wanted);
  bool WithinLimits(uint64_t now_ns);
  bool CoolingDown(std::string_view session_id, TriggerClass trigger_class, uint64_t now_ns) const;
  bool PressureTooSoon(const Trigger& trigger, uint64_t now_ns);
  void AddTo(Incident& incident, Trigger trigger) const;
  void Retire(uint64_t now_ns);

  IncidentLimits limits_;
  std::vector<Entry> incidents_;  // One a session at most; few.
  std::map<std::pair<std::string, TriggerClass>, uint64_t> cool_until_ns_;
  std::deque<uint64_t> opened_ns_;  // Of the last hour's incidents, one dump each.
  std::deque<Written> written_;     // In the last hour.
  uint64_t last_pressure_ns_ = 0;
  uint64_t suppressed_count_ = 0;
};

}  // namespace smeltr::daemon
