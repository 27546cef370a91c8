// Any bytes as a session file: opened, summed up, read to the end, verified and repaired. Nothing may crash,
// hang or ask for memory that the file does not pay for.
//
// The first byte picks how the rest is used: as a file, or as the body of a chunk whose header and
// checksums are right, so that the decoders behind the checksums are reached too.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/fd.h"
#include "event/names.h"
#include "session/chunk_header.h"
#include "session/format.h"
#include "session/reader.h"
#include "session/repair.h"
#include "session/verify.h"

namespace smeltr::session {
namespace {

ByteBuffer FileAround(std::span<const std::byte> input) {
  ByteReader in(input);
  const auto kinds = event::AllKinds();
  BlockEntry block;
  block.kind_number = static_cast<uint16_t>(kinds[in.Load<uint8_t>() % kinds.size()].kind);
  block.api = event::Api::kVulkan;
  block.opaque = in.Load<uint8_t>() % 16 == 0;
  block.event_count = in.Load<uint16_t>();
  ChunkHeader header;
  header.event_count = block.event_count;
  header.text_count = in.Load<uint8_t>();
  const auto text = in.Take(std::min<size_t>(in.Load<uint8_t>(), in.remaining()));
  const auto body = in.Take(in.remaining());
  header.text_stored_bytes = static_cast<uint32_t>(text.size());
  header.text_checksum = Checksum(text);
  block.stored_bytes = static_cast<uint32_t>(body.size());
  block.checksum = Checksum(body);
  header.body_bytes = header.text_stored_bytes + block.stored_bytes;
  header.blocks.push_back(block);

  ByteBuffer file;
  file.PutText(kFileMagic);
  file.Put(kFormatMajor);
  file.Put(kFormatMinor);
  file.Put(uint32_t{0});
  EncodeChunkHeader(header, file);
  file.PutBytes(text);
  file.PutBytes(body);
  return file;
}

// Reads every byte that an event points to.
struct Touch {
  uint64_t sum = 0;

  void Value(const event::Text& text) {
    for (const char c : text.view) sum += static_cast<unsigned char>(c);
  }
  template <Scalar T>
  void Value(T value) {
    sum += static_cast<uint64_t>(value);
  }
  void Value(double value) { sum += value > 0 ? 1 : 0; }
  template <typename T>
  void Value(const event::List<T>& list) {
    for (const T& element : list) Value(element);
  }
  void Value(const event::Opaque& opaque) { Value(opaque.bytes); }
  template <typename T>
    requires(!Scalar<T>)
  void Value(const T& fields) {
    VisitFields(fields, [this](std::string_view, bool, const auto& field) { this->Value(field); });
  }
};

// Whatever is damaged in a file, what a repair makes of it is sound, and holds all that was.
void VerifyAndRepair(const std::string& path) {
  const std::string repaired = "/dev/shm/smeltr-fuzz-" + std::to_string(::getpid());
  ::unlink(repaired.c_str());
  const auto before = VerifyFile(path, false);
  const auto kept = RepairFile(path, repaired);
  if (!before.has_value() || !kept.has_value()) std::abort();
  const auto after = VerifyFile(repaired, false);
  if (!after.has_value() || after->fault_count != 0 || !after->has_index) std::abort();
  if (after->event_count != before->event_count || after->event_count != *kept) std::abort();
  ::unlink(repaired.c_str());
}

void ReadAll(std::span<const std::byte> bytes) {
  const Fd fd(::memfd_create("session", MFD_CLOEXEC));
  if (!fd.valid() || ::write(fd.get(), bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
    std::abort();
  }
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  const auto reader = Reader::Open(path);
  if (!reader) return;
  Touch touch;
  uint64_t count = 0;
  reader->ForEach({}, [&](const event::Event& event) {
    ++count;
    std::visit([&](const auto& fields) { touch.Value(fields); }, event.payload);
  });
  // Opaque events are unknown but still delivered, so this holds only as a bound.
  if (count > reader->summary().event_count) std::abort();
  VerifyAndRepair(path);
}

}  // namespace
}  // namespace smeltr::session

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace smeltr::session;
  if (size == 0) return 0;
  const auto rest = std::as_bytes(std::span(data, size)).subspan(1);
  if (data[0] % 2 == 0) {
    ReadAll(rest);
  } else {
    ReadAll(FileAround(rest).view());
  }
  return 0;
}
