// Bytes as a Chrome trace: whatever they are, they are read to their end within bounds, put in order and
// written as a session.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "memory_file.h"
#include "session/import_trace_collect.h"
#include "session/import_trace_events.h"
#include "session/import_trace_reader.h"

namespace smeltr::session {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void Import(std::span<const std::byte> bytes) {
  const Fd fd(::memfd_create("trace", MFD_CLOEXEC));
  Require(fd.valid() && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  ImportNotes notes;
  ImportSorter sorter("/nowhere", size_t{1} << 30);
  TraceCollector collector(sorter);
  const auto read =
      ReadTrace("/proc/self/fd/" + std::to_string(fd.get()),
                {.notes = &notes,
                 .on_event = [&](const TraceEvent& event) { collector.OnEvent(event); },
                 .on_property = [&](std::string_view key,
                                    const JsonValue& value) { collector.OnProperty(key, value); }});
  if (!read.has_value()) return;
  Require(collector.status().has_value());
  const TraceFacts& facts = collector.facts();
  Require(facts.first_ns <= facts.last_ns);
  Writer writer = Writer::CreateOn(std::make_unique<MemoryFile>(), WriterOptions{});
  TraceEvents events(facts, std::max<int64_t>(1'000'000'000 - facts.first_ns, 0), writer);
  std::vector<event::Attribute> attributes;
  uint64_t count = 0;
  Require(sorter
              .ForEach([&](const SortKey&, std::span<const std::byte> record_bytes) {
                TraceRecord record;
                Require(DecodeRecord(record_bytes, attributes, record));
                events.Add(record);
                ++count;
              })
              .has_value());
  Require(count == collector.record_count());
  events.Finish(notes);
  Require(writer.Close(FileSync::kNone).has_value());
  Require(notes.Lines().size() <= ImportNotes::kMaxNotes + 1);
}

}  // namespace
}  // namespace smeltr::session

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  smeltr::session::Import(std::as_bytes(std::span(data, size)));
  return 0;
}
