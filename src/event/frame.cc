#include "event/frame.h"

namespace smeltr::event {
namespace {

class FieldDecoder {
 public:
  FieldDecoder(ByteReader& in, StringSource& strings, DecodeArena& arena)
      : in_(in), strings_(strings), arena_(arena) {}

  template <typename T>
  void operator()(std::string_view, bool, T& field) {
    // An older writer did not know this field: it keeps its zero.
    if (in_.remaining() > 0) Decode(field);
  }

 private:
  void Decode(Text& text) {
    const auto reference = in_.Load<uint32_t>();
    if (reference == 0) return;
    if ((reference & kInlineText) != 0) {
      text.view = in_.TakeText(reference & 0xFFFF);
    } else {
      text.view = strings_.Lookup(reference);
    }
  }

  void Decode(bool& value) { value = in_.Load<uint8_t>() != 0; }

  template <Scalar T>
  void Decode(T& value) {
    value = in_.Load<T>();
  }

  template <typename T>
  void Decode(List<T>& list) {
    const auto count = in_.Load<uint32_t>();
    // Every element takes at least one byte, so the count can never ask for more than the frame has.
    if (count > in_.remaining()) return in_.MarkBad();
    const std::span<T> elements = arena_.Allocate<T>(count);
    if (elements.size() != count) return in_.MarkBad();
    for (T& element : elements) DecodeElement(element);
    list = elements;
  }

  template <typename T>
  void DecodeElement(T& element) {
    if constexpr (Scalar<T> || std::same_as<T, Text>) {
      Decode(element);
    } else {
      VisitFields(element, *this);
    }
  }

  ByteReader& in_;
  StringSource& strings_;
  DecodeArena& arena_;
};

}  // namespace

Result<Event> DecodeFrame(std::span<const std::byte> frame, StringSource& strings, DecodeArena& arena) {
  ByteReader in(frame);
  const auto header = FrameHeader{.size_bytes = in.Load<uint32_t>(),
                                  .kind_number = in.Load<uint16_t>(),
                                  .api = in.Load<Api>(),
                                  .reserved = in.Load<uint8_t>(),
                                  .ts_ns = in.Load<uint64_t>()};
  if (!in.ok() || header.size_bytes != frame.size()) {
    return Fail(ErrorCode::kCorrupt, "frame size does not match its header");
  }
  Event event;
  event.envelope.ts_ns = header.ts_ns;
  event.envelope.api = static_cast<size_t>(header.api) < kEnumSize<Api> ? header.api : Api::kNone;
  FieldDecoder decoder(in, strings, arena);
  switch (static_cast<Kind>(header.kind_number)) {
#define KIND(number, name, source, naming)               \
  case Kind::k##name:                                    \
    VisitFields(event.payload.emplace<name>(), decoder); \
    break;
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
    case Kind::kUnknown:
    default:
      event.payload = Opaque{.kind_number = header.kind_number, .bytes = frame.subspan(in.position())};
  }
  if (!in.ok()) return Fail(ErrorCode::kCorrupt, "frame ends inside a field");
  return event;
}

}  // namespace smeltr::event
