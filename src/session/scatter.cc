#include "session/scatter.h"

#include <cstring>

namespace smeltr::session {
namespace {

template <typename T, typename Convert>
void Scatter(std::span<const uint64_t> numbers, std::byte* at, size_t stride, Convert convert) {
  for (const uint64_t number : numbers) {
    const T value = convert(number);
    std::memcpy(at, &value, sizeof(T));
    at += stride;
  }
}

}  // namespace

void ScatterField(FieldForm form, std::span<const uint64_t> numbers, std::byte* at, size_t stride,
                  const StoredTexts& texts) {
  switch (form) {
    case FieldForm::kByte:
      return Scatter<uint8_t>(numbers, at, stride, [](uint64_t n) { return static_cast<uint8_t>(n); });
    case FieldForm::kBool:
      return Scatter<bool>(numbers, at, stride, [](uint64_t n) { return n != 0; });
    case FieldForm::kWord32:
      return Scatter<uint32_t>(numbers, at, stride, [](uint64_t n) { return static_cast<uint32_t>(n); });
    case FieldForm::kWord64:
    case FieldForm::kDouble:
      return Scatter<uint64_t>(numbers, at, stride, [](uint64_t n) { return n; });
    case FieldForm::kText:
      return Scatter<event::Text>(numbers, at, stride,
                                  [&](uint64_t n) { return event::Text(texts.Find(n)); });
    case FieldForm::kList:
      return;  // ListDecoder does these.
  }
}

}  // namespace smeltr::session
