// Payloads as bytes, so that tests can compare events field by field without knowing their kinds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <variant>
#include <vector>

#include "event/frame.h"

namespace smeltr::fake {

// Puts every text into the frame itself.
struct NoStrings {
  uint32_t Intern(std::string_view) { return 0; }
};

// Equal bytes, equal payloads. Texts that only carry an id must have been resolved.
inline std::vector<std::byte> FrameBytes(const event::Payload& payload) {
  thread_local std::vector<std::byte> bytes(1 << 18);
  const size_t size = std::visit(
      []<typename E>(const E& fields) -> size_t {
        if constexpr (std::same_as<E, event::Opaque>) {
          return 0;
        } else {
          NoStrings strings;
          return event::EncodeFrame(event::Api::kNone, 0, fields, strings, bytes);
        }
      },
      payload);
  return {bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(size)};
}

// Random events of every kind; owns what they point to.
class RandomEvents {
 public:
  explicit RandomEvents(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_); }

  // The event lives until the next call.
  template <typename E>
  E Make() {
    texts_.clear();
    lists_.clear();
    E fields{};
    event::VisitFields(fields, *this);
    return fields;
  }

  template <typename T>
  void operator()(std::string_view, bool, T& field) {
    Fill(field);
  }

 private:
  void Fill(event::Text& text) {
    auto& characters = texts_.emplace_back(std::make_unique<std::string>());
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
    lists_.push_back(std::move(elements));
  }
  template <typename T>
  void FillElement(T& element) {
    if constexpr (Scalar<T> || std::same_as<T, event::Text>) {
      Fill(element);
    } else {
      event::VisitFields(element, *this);
    }
  }

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::shared_ptr<void>> lists_;
};

// Calls visit.operator()<E>() for every event struct.
template <typename V>
void ForEachEventType(V&& visit) {
  [&]<typename... E>(std::type_identity<std::variant<event::Opaque, E...>>) {
    (visit.template operator()<E>(), ...);
  }(std::type_identity<event::Payload>{});
}

}  // namespace smeltr::fake
