#include "session/import_trace_record.h"

#include <algorithm>

#include "base/bytes.h"
#include "event/frame.h"

namespace smeltr::session {
namespace {

void PutText(std::string_view text, ByteBuffer& out) {
  text = event::CutText(text, event::kMaxTextBytes);
  out.Put(static_cast<uint32_t>(text.size()));
  out.PutText(text);
}

std::string_view TakeText(ByteReader& in) {
  const auto size = in.Load<uint32_t>();
  return in.TakeText(size);
}

}  // namespace

void EncodeRecord(const TraceRecord& record, ByteBuffer& out) {
  out.PutBytes(std::as_bytes(std::span(&record.numbers, 1)));
  PutText(record.name, out);
  PutText(record.label, out);
  const auto kept = record.attributes.first(std::min(record.attributes.size(), kMaxAttributes));
  out.Put(static_cast<uint32_t>(kept.size()));
  for (const event::Attribute& attribute : kept) {
    out.Put(attribute.type);
    out.Put(attribute.bits);
    PutText(attribute.key.view, out);
    PutText(attribute.text.view, out);
  }
}

bool DecodeRecord(std::span<const std::byte> bytes, std::vector<event::Attribute>& storage,
                  TraceRecord& record) {
  ByteReader in(bytes);
  const auto numbers = in.Take(sizeof(TraceNumbers));
  if (!in.ok()) return false;
  std::memcpy(&record.numbers, numbers.data(), numbers.size());
  record.name = TakeText(in);
  record.label = TakeText(in);
  const auto count = in.Load<uint32_t>();
  storage.clear();
  for (uint32_t i = 0; i < count && i < kMaxAttributes && in.ok(); ++i) {
    event::Attribute attribute;
    attribute.type = in.Load<event::AttributeType>();
    attribute.bits = in.Load<uint64_t>();
    attribute.key = TakeText(in);
    attribute.text = TakeText(in);
    storage.push_back(attribute);
  }
  record.attributes = storage;
  return in.ok();
}

}  // namespace smeltr::session
