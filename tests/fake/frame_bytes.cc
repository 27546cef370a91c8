#include "fake/frame_bytes.h"

#include <concepts>
#include <utility>

namespace smeltr::fake {

size_t EncodePayload(event::Api api, uint64_t ts_ns, const event::Payload& payload, StringNumbers* numbers,
                     std::span<std::byte> room) {
  return std::visit(
      [&]<typename E>(const E& fields) -> size_t {
        if constexpr (std::same_as<E, event::Opaque>) {
          return 0;
        } else {
          NoStrings inline_texts;
          return numbers == nullptr ? event::EncodeFrame(api, ts_ns, fields, inline_texts, room)
                                    : event::EncodeFrame(api, ts_ns, fields, *numbers, room);
        }
      },
      payload);
}

std::vector<std::byte> FrameBytes(const event::Payload& payload) {
  thread_local std::vector<std::byte> bytes(1 << 18);
  const size_t size = EncodePayload(event::Api::kNone, 0, payload, nullptr, bytes);
  return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)};
}

class RandomEvents::Filler {
 public:
  explicit Filler(RandomEvents& events) : events_(events) {}

  template <typename T>
  void operator()(std::string_view, bool, T& field) {
    Fill(field);
  }

 private:
  uint64_t Below(uint64_t limit) { return events_.Below(limit); }

  void Fill(event::Text& text) {
    auto& characters = events_.texts_.emplace_back(std::make_unique<std::string>());
    const uint64_t size = Below(10) == 0 ? Below(3000) : Below(30);
    for (uint64_t i = 0; i < size; ++i) characters->push_back(static_cast<char>('a' + Below(3)));
    text = event::Text(std::string_view(*characters));
  }
  template <Scalar T>
  void Fill(T& value) {
    if constexpr (std::same_as<T, bool>) {
      value = Below(2) == 1;
    } else if constexpr (event::NamedEnum<T>) {
      value = static_cast<T>(Below(event::kEnumSize<T>));
    } else {
      value = static_cast<T>(Below(2) == 1 ? Below(UINT64_MAX) : Below(100));
    }
  }
  template <typename T>
  void Fill(event::List<T>& list) {
    const uint64_t count = Below(4) == 0 ? 0 : Below(12);
    auto elements = std::make_shared<std::vector<T>>(count);
    for (T& element : *elements) FillElement(element);
    list = *elements;
    events_.lists_.push_back(std::move(elements));
  }
  template <typename T>
  void FillElement(T& element) {
    if constexpr (Scalar<T> || std::same_as<T, event::Text>) {
      Fill(element);
    } else {
      event::VisitFields(element, *this);
    }
  }

  RandomEvents& events_;
};

event::Payload RandomEvents::Make(size_t kind) {
  texts_.clear();
  lists_.clear();
  event::Payload payload;
  Filler filler(*this);
  [&]<size_t... kIndexes>(std::index_sequence<kIndexes...>) {
    ((kind == kIndexes + kFirstKind ? event::VisitFields(payload.emplace<kIndexes + kFirstKind>(), filler)
                                    : void()),
     ...);
  }(std::make_index_sequence<kKindEnd - kFirstKind>());
  return payload;
}

}  // namespace smeltr::fake
