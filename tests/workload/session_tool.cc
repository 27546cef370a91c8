// session_tool make DIRECTORY SEED COUNT: a session of random events of every kind, in several files.
// session_tool dump FILE...: the events of session files as they come, one JSON object a line.
// For tests of other readers.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>

#include "event/json.h"
#include "session/reader.h"
#include "session/segmented_writer.h"
#include "unit/session/random_events.h"

namespace smeltr {
namespace {

int Complain(std::string_view text) {
  std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
  return 1;
}

int Make(const char* directory, uint64_t seed, uint64_t count) {
  using session::testing::RandomEvents;
  auto writer = session::SegmentedWriter::Create(directory, {.max_bytes = uint64_t{16} << 20});
  if (!writer.has_value()) return Complain(writer.error().text());
  RandomEvents usual(seed);
  RandomEvents extreme(seed, RandomEvents::Values::kExtreme);
  constexpr size_t kKinds = std::variant_size_v<event::Payload>;
  for (uint64_t i = 0; i < count; ++i) {
    writer->Append((i / kKinds) % 4 == 3 ? extreme.Make(i % kKinds) : usual.Make(i % kKinds));
    // Small chunks and large ones.
    if (i % 3000 == 100) static_cast<void>(writer->Flush());
  }
  const auto closed = writer->Close();
  return closed.has_value() ? 0 : Complain(closed.error().text());
}

int Dump(std::span<char*> files) {
  std::string line;
  for (const char* file : files) {
    const auto reader = session::Reader::Open(file);
    if (!reader.has_value()) return Complain(reader.error().text());
    reader->ForEach({}, [&](const event::Event& event) {
      line.clear();
      event::AppendJson(event, line);
      std::puts(line.c_str());
    });
    if (reader->damage().any()) std::fprintf(stderr, "%s: damaged\n", file);
  }
  return 0;
}

uint64_t Number(std::string_view text) {
  uint64_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

}  // namespace
}  // namespace smeltr

int main(int argc, char** argv) {
  const std::string_view command = argc > 1 ? argv[1] : "";
  if (command == "make" && argc == 5) {
    return smeltr::Make(argv[2], smeltr::Number(argv[3]), smeltr::Number(argv[4]));
  }
  if (command == "dump" && argc > 2) return smeltr::Dump({argv + 2, argv + argc});
  return smeltr::Complain("usage: session_tool make DIRECTORY SEED COUNT | dump FILE...");
}
