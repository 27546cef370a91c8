#include <algorithm>
#include <array>
#include <cstring>

#include "analysis/timeline.h"
#include "base/bytes.h"

namespace smeltr::analysis {
namespace {

void AppendText(std::string& out, std::string_view text) {
  std::array<char, sizeof(uint32_t)> length{};
  const auto value = static_cast<uint32_t>(text.size());
  std::memcpy(length.data(), &value, length.size());
  out.append(length.data(), length.size());
  out += text;
}

std::string TakeText(ByteReader& in) {
  const auto length = in.Load<uint32_t>();
  return std::string(in.TakeText(length));
}

}  // namespace

std::string EncodeFields(event::List<event::Attribute> fields) {
  std::vector<const event::Attribute*> ordered;
  ordered.reserve(fields.size());
  for (const event::Attribute& field : fields) ordered.push_back(&field);
  // All stand in one array: of equal keys the earlier comes first.
  std::sort(ordered.begin(), ordered.end(), [](const event::Attribute* a, const event::Attribute* b) {
    return a->key.view != b->key.view ? a->key.view < b->key.view : a < b;
  });
  std::string out;
  for (const event::Attribute* field : ordered) {
    AppendText(out, field->key.view);
    out += static_cast<char>(field->type);
    std::array<char, sizeof(uint64_t)> bits{};
    std::memcpy(bits.data(), &field->bits, bits.size());
    out.append(bits.data(), bits.size());
    AppendText(out, field->text.view);
  }
  return out;
}

std::vector<Field> DecodeFields(std::string_view encoded) {
  ByteReader in(std::as_bytes(std::span(encoded.data(), encoded.size())));
  std::vector<Field> fields;
  while (in.remaining() > 0) {
    Field field;
    field.key = TakeText(in);
    field.type = in.Load<event::AttributeType>();
    field.bits = in.Load<uint64_t>();
    field.text = TakeText(in);
    if (!in.ok()) break;
    fields.push_back(std::move(field));
  }
  return fields;
}

}  // namespace smeltr::analysis
