#include "faces/session_notes.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <tuple>
#include <utility>

#include "event/event.h"
#include "util/format.h"

namespace smeltr::faces {
namespace {

using event::Envelope;

std::string FieldText(const event::Attribute& field) {
  const std::string key(field.key.view);
  switch (field.type) {
    case event::AttributeType::kBool:
      return key + (field.bits != 0 ? "=true" : "=false");
    case event::AttributeType::kInt:
      return fmt::format("{}={}", key, static_cast<int64_t>(field.bits));
    case event::AttributeType::kFloat:
      return fmt::format("{}={}", key, std::bit_cast<double>(field.bits));
    case event::AttributeType::kString:
      break;
  }
  return key + "=" + std::string(field.text.view);
}

std::string Who(event::Text name, uint32_t pid) {
  return name.view.empty() ? fmt::format("process {}", pid) : fmt::format("{} ({})", name.view, pid);
}

// The earliest of any number, in bounded memory: events of a kind come in no particular order.
template <typename Row>
void Keep(Row row, std::vector<Row>& rows) {
  rows.push_back(std::move(row));
  if (rows.size() < 2 * kMaxNoteRows) return;
  const auto middle = rows.begin() + static_cast<std::ptrdiff_t>(kMaxNoteRows);
  std::ranges::nth_element(rows, middle, {}, &Row::ts_ns);
  rows.erase(middle, rows.end());
}

template <typename Row>
void Order(std::vector<Row>& rows) {
  std::ranges::stable_sort(rows, {}, &Row::ts_ns);
  if (rows.size() > kMaxNoteRows) rows.erase(rows.begin() + kMaxNoteRows, rows.end());
}

class Collector {
 public:
  explicit Collector(SessionNotes& notes) : notes_(notes) {}

  template <typename... E>
  void Read(const analysis::EventSource& source) {
    (source.ForEach<E>([&](const Envelope& envelope, const E& fields) { On(envelope, fields); }), ...);
  }

 private:
  void On(const Envelope& envelope, const event::Mark& fields) {
    ++notes_.mark_count;
    MarkNote note{envelope.ts_ns, envelope.pid, std::string(fields.label.view), {}};
    for (const event::Attribute& field : fields.fields) {
      note.fields += (note.fields.empty() ? "" : ", ") + FieldText(field);
    }
    Keep(std::move(note), notes_.marks);
  }
  void On(const Envelope& envelope, const event::CrashHint& fields) {
    Add({envelope.ts_ns, fields.target_pid, "kernel", std::string(fields.text.view), {}});
  }
  void On(const Envelope& envelope, const event::CrashReportEmitted& fields) {
    Add({envelope.ts_ns, fields.crashed_pid, "crash report",
         fmt::format("{}: {}", Who(fields.process_name, fields.crashed_pid), fields.summary.view),
         std::string(fields.path.view)});
  }
  void On(const Envelope& envelope, const event::OomKill& fields) {
    const std::string limit =
        fields.cgroup.view.empty() ? "" : fmt::format(", limit of {}", fields.cgroup.view);
    Add({envelope.ts_ns,
         fields.killed_pid,
         "memory kill",
         fmt::format("{} was killed with {} in use{}", Who(fields.killed_name, fields.killed_pid),
                     FormatBytes(fields.anon_rss_bytes), limit),
         {}});
  }
  void On(const Envelope& envelope, const event::JetsamKill& fields) {
    Add({envelope.ts_ns, fields.killed_pid, "memory kill",
         fmt::format("{} was killed with {} in use: {}", Who(fields.killed_name, fields.killed_pid),
                     FormatBytes(fields.footprint_bytes), fields.reason.view),
         std::string(fields.path.view)});
  }
  void On(const Envelope& envelope, const event::MachException& fields) {
    Add({envelope.ts_ns,
         fields.target_pid,
         "exception",
         fmt::format("exception {} in process {}", fields.exception_type, fields.target_pid),
         {}});
  }
  void On(const Envelope& envelope, const event::OsLogLine& fields) {
    Add({envelope.ts_ns, fields.target_pid, "log", std::string(fields.message.view), {}});
  }

  void Add(CrashNote note) { Keep(std::move(note), notes_.crash); }

  SessionNotes& notes_;
};

}  // namespace

SessionNotes CollectNotes(const analysis::EventSource& source) {
  SessionNotes notes;
  Collector collector(notes);
  collector.Read<event::Mark, event::CrashHint, event::CrashReportEmitted, event::OomKill, event::JetsamKill,
                 event::MachException, event::OsLogLine>(source);
  Order(notes.marks);
  Order(notes.crash);
  // A line of the kernel's log that is also a hint is there twice.
  const auto same = [](const CrashNote& a, const CrashNote& b) {
    return a.ts_ns == b.ts_ns && a.text == b.text;
  };
  const auto twice = std::ranges::unique(notes.crash, same);
  notes.crash.erase(twice.begin(), twice.end());
  return notes;
}

}  // namespace smeltr::faces
