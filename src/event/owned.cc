#include "event/owned.h"

#include <cstring>

#include "base/bytes.h"

namespace smeltr::event {
namespace {

constexpr size_t kEnvelopeBytes = sizeof(uint64_t) + 2 * sizeof(uint32_t);
constexpr size_t kFirstTryBytes = 512;

// All texts go inline.
struct NoInterner {
  static uint32_t Intern(std::string_view) { return 0; }
};
struct NoStrings : StringSource {
  std::string_view Lookup(uint32_t) override { return {}; }
};

size_t Encode(const Event& event, std::span<std::byte> space) {
  const Envelope& envelope = event.envelope;
  return std::visit(
      [&]<typename E>(const E& fields) -> size_t {
        if constexpr (std::same_as<E, Opaque>) {
          const size_t size = sizeof(FrameHeader) + fields.bytes.size();
          if (size > space.size()) return 0;
          const FrameHeader header{static_cast<uint32_t>(size), fields.kind_number, envelope.api, 0,
                                   envelope.ts_ns};
          std::memcpy(space.data(), &header, sizeof(header));
          if (!fields.bytes.empty()) {
            std::memcpy(space.data() + sizeof(header), fields.bytes.data(), fields.bytes.size());
          }
          return size;
        } else {
          NoInterner strings;
          return EncodeFrame(envelope.api, envelope.ts_ns, fields, strings, space);
        }
      },
      event.payload);
}

}  // namespace

bool AppendOwned(const Event& event, std::vector<std::byte>& out) {
  const size_t start = out.size();
  size_t frame_bytes = 0;
  for (size_t room = kFirstTryBytes; frame_bytes == 0 && room <= kMaxOwnedBytes; room *= 8) {
    out.resize(start + kEnvelopeBytes + room);
    frame_bytes = Encode(event, std::span(out).subspan(start + kEnvelopeBytes));
  }
  out.resize(frame_bytes == 0 ? start : start + kEnvelopeBytes + frame_bytes);
  if (frame_bytes == 0) return false;
  std::byte* at = out.data() + start;
  std::memcpy(at, &event.envelope.seq, sizeof(uint64_t));
  std::memcpy(at + 8, &event.envelope.pid, sizeof(uint32_t));
  std::memcpy(at + 12, &event.envelope.tid, sizeof(uint32_t));
  return true;
}

Result<Event> TakeOwned(std::span<const std::byte>& bytes, DecodeArena& arena) {
  ByteReader in(bytes);
  const auto seq = in.Load<uint64_t>();
  const auto pid = in.Load<uint32_t>();
  const auto tid = in.Load<uint32_t>();
  const auto size = in.Load<uint32_t>();
  if (!in.ok() || size < sizeof(FrameHeader) || size > bytes.size() - kEnvelopeBytes) {
    return Fail(ErrorCode::kCorrupt, "not a whole event");
  }
  NoStrings strings;
  SMELTR_ASSIGN_OR_RETURN(Event event, DecodeFrame(bytes.subspan(kEnvelopeBytes, size), strings, arena));
  event.envelope.seq = seq;
  event.envelope.pid = pid;
  event.envelope.tid = tid;
  bytes = bytes.subspan(kEnvelopeBytes + size);
  return event;
}

}  // namespace smeltr::event
