// A real ring with honest events in it, then scribbled on as the input says while it is drained. The
// reader must stay safe, end, and have nothing left afterwards.
//
// The input is a list of steps of 8 bytes: what (1), value (3), where (4).
#include <stdlib.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "ring/reader.h"
#include "ring/writer.h"

namespace {

using namespace smeltr;

constexpr uint32_t kUsableBlocks = 3;

// Made once; every input begins with zeroed blocks and strings in it.
class FuzzRing {
 public:
  FuzzRing() {
    char directory[] = "/tmp/smeltr-fuzz-XXXXXX";
    if (::mkdtemp(directory) == nullptr) std::abort();
    auto segment = ring::Segment::Create(directory, {.block_count = kUsableBlocks + ring::kFatalBlockCount});
    if (!segment.has_value()) std::abort();
    const ring::ProcessIdentity self = ring::SelfIdentity();
    path_ = std::string(directory) + "/" + std::to_string(self.pid) + "-" +
            std::to_string(self.start_time_ticks) + ".ring";
    bytes_ = segment->bytes();
    static_cast<void>(segment->Leak());
  }

  ring::RingHeader& header() { return *reinterpret_cast<ring::RingHeader*>(bytes_.data()); }
  std::span<std::byte> bytes() { return bytes_; }
  ring::Reader NewReader() { return ring::Reader(ring::Segment::Map(path_.c_str()).value()); }

  void Reset() {
    const ring::Geometry geometry = ring::GeometryOf(kUsableBlocks + ring::kFatalBlockCount);
    if (constant_.empty()) {
      constant_.assign(bytes_.begin(), bytes_.begin() + offsetof(ring::RingHeader, next_order));
    }
    std::memset(bytes_.data(), 0, geometry.string_table_offset);
    std::memcpy(bytes_.data(), constant_.data(), constant_.size());
    // Only what the events below use of the table.
    std::memset(bytes_.data() + geometry.string_table_offset + ring::kStringSlotCount * 8, 0, 4096);
    writer.Attach(&header(), ++generation_);
  }

  ring::Writer writer;

 private:
  std::span<std::byte> bytes_;
  std::string path_;
  std::vector<std::byte> constant_;
  uint32_t generation_ = 0;
};

void WriteHonest(FuzzRing& ring, uint32_t value) {
  const event::Text name("name", 1 + value % 64 * 4);
  const event::OpSample op{.name = name,
                           .symbol = "inline, for no table has it",
                           .type = {},
                           .gpu_ns = value,
                           .count = 1,
                           .scope_id = {},
                           .precision = {},
                           .local_x = 0,
                           .local_y = 0,
                           .local_z = 0};
  const event::OpSample ops[] = {op, op, op};
  ring.writer.Write(event::Api::kVulkan, event::CbOps{.cb_id = event::CbId{value}, .ops = ops});
  ring.writer.Write(event::Api::kVulkan, event::CbScheduled{.cb_id = event::CbId{value}, .queue_id = {}});
}

void Drain(ring::Reader& reader, uint64_t limit) {
  reader.Drain(limit, [](const event::Event& event) {
    if (event.envelope.ts_ns == 1 && event.envelope.tid == 2 && event.envelope.pid == 3) ::getppid();
  });
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static FuzzRing& ring = *new FuzzRing();
  ring.Reset();
  ring::Reader reader = ring.NewReader();
  WriteHonest(ring, 1);
  for (; size >= 8; data += 8, size -= 8) {
    const uint32_t value = static_cast<uint32_t>(data[1] | data[2] << 8 | data[3] << 16);
    uint32_t where = 0;
    std::memcpy(&where, data + 4, sizeof(where));
    const std::span<std::byte> bytes = ring.bytes();
    const ring::Geometry geometry = ring::GeometryOf(kUsableBlocks + ring::kFatalBlockCount);
    switch (data[0] % 8) {
      case 0:
        for (uint32_t i = 0; i < value % 64; ++i) WriteHonest(ring, where + i);
        break;
      case 1:
        Drain(reader, value % 256);
        break;
      case 2:  // Anything behind the start of the block headers, the upper byte of the value in all bits.
        std::memset(
            bytes.data() + sizeof(ring::RingHeader) + where % (bytes.size() - sizeof(ring::RingHeader) - 4),
            data[1], 1 + value % 4);
        break;
      case 3:  // A field of a block header.
        std::memcpy(bytes.data() + sizeof(ring::RingHeader) + where % (kUsableBlocks * 64 - 4), &value, 4);
        break;
      case 4:  // Into the frames that are there.
        std::memcpy(bytes.data() + geometry.blocks_offset + where % 2048, &value, 4);
        break;
      case 5:
        reader = ring.NewReader();
        break;
      case 6:  // Lengths and characters of strings.
        std::memcpy(bytes.data() + geometry.string_table_offset + ring::kStringSlotCount * 8 + where % 256,
                    &value, 4);
        break;
      default:
        reader.TakeDropped();
        ring.writer.ReleaseThreadBlock();
        if (reader.closed()) ring.header().closed = 0;
    }
  }
  uint64_t turns = 0;
  while (reader.Drain(64, [](const event::Event&) {}).more) {
    if (++turns > 100'000) std::abort();
  }
  Drain(reader, UINT64_MAX);
  if (!reader.empty()) std::abort();
  ring::Writer::ForgetThreadBlock();
  return 0;
}
