// Bytes as the event file of an earlier smeltr: whatever they are, it is read to its end within bounds, and
// what comes out can be written as a session.
//
// The first byte picks how the rest is used: as the file, or as the events inside a file that is whole, so
// that the translation behind the compression is reached too.
#include <sys/mman.h>
#include <unistd.h>
#include <zstd.h>

#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "memory_file.h"
#include "session/import_v1_events.h"
#include "session/import_v1_stream.h"

namespace smeltr::session {
namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

void ReadAll(std::span<const std::byte> bytes) {
  const Fd fd(::memfd_create("events", MFD_CLOEXEC));
  Require(fd.valid() && ::write(fd.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  Writer writer = Writer::CreateOn(std::make_unique<MemoryFile>(), WriterOptions{});
  V1Events events(writer, {.start_unix_ns = 1, .root_pid = 2});
  ImportNotes notes;
  const auto read = ReadV1Stream("/proc/self/fd/" + std::to_string(fd.get()), {.notes = &notes},
                                 [&](std::span<const std::byte> cbor) {
                                   V1SessionId(cbor);
                                   return events.Add(cbor) ? V1Visit::kGo : V1Visit::kBad;
                                 });
  events.Finish(notes);
  if (!read.has_value()) return;
  Require(writer.Close(FileSync::kNone).has_value());
  // A queue may be told beside a commit, an event with unknown fields twice.
  Require(writer.stats().event_count <= read->frame_count * 3);
  Require(notes.Lines().size() <= ImportNotes::kMaxNotes + 1);
}

}  // namespace
}  // namespace smeltr::session

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 2 == 0) {
    smeltr::session::ReadAll(rest);
    return 0;
  }
  std::vector<std::byte> packed(ZSTD_compressBound(rest.size()));
  packed.resize(ZSTD_compress(packed.data(), packed.size(), rest.data(), rest.size(), 1));
  smeltr::session::ReadAll(packed);
  return 0;
}
