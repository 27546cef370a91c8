// Events of every kind with random content, made from kinds.def, and a way to keep and compare events.
#pragma once

#include <array>
#include <deque>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "event/event.h"
#include "event/frame.h"
#include "session/format.h"

namespace smeltr::session::testing {

// Owns what events point to.
class EventStore {
 public:
  event::Text Keep(std::string text) {
    return event::Text(std::string_view(texts_.emplace_back(std::move(text))));
  }
  template <typename T>
  event::List<T> Keep(std::vector<T> elements) {
    auto kept = std::make_shared<std::vector<T>>(std::move(elements));
    lists_.push_back(kept);
    return *kept;
  }

 private:
  std::deque<std::string> texts_;
  std::vector<std::shared_ptr<void>> lists_;
};

class RandomEvents {
 public:
  enum class Values { kUsual, kExtreme };
  explicit RandomEvents(uint64_t seed, Values values = Values::kUsual)
      : random_(seed), extreme_(values == Values::kExtreme) {}

  // Of kind number `index` of the payload variant; 0 is Opaque.
  event::Event Make(size_t index) {
    event::Event event;
    event.envelope.ts_ns = clock_ns_ += Below(100'000);
    event.envelope.pid = static_cast<uint32_t>(1000 + Below(3));
    event.envelope.tid = static_cast<uint32_t>(1000 + Below(20));
    event.envelope.api = static_cast<event::Api>(Below(event::kEnumSize<event::Api>));
    MakePayload(index, event.payload, std::make_index_sequence<std::variant_size_v<event::Payload>>());
    return event;
  }
  event::Event Make() { return Make(Below(std::variant_size_v<event::Payload>)); }

  uint64_t Below(uint64_t limit) { return random_() % limit; }

 private:
  template <size_t... kIndexes>
  void MakePayload(size_t index, event::Payload& payload, std::index_sequence<kIndexes...>) {
    ((index == kIndexes ? Fill(payload.emplace<kIndexes>()) : void()), ...);
  }

  void Fill(event::Opaque& opaque) {
    opaque.kind_number = static_cast<uint16_t>(event::kKindLimit + Below(1000));
    opaque.bytes = MakeList<std::byte>(Below(40));
  }
  void Fill(event::Text& text) {
    if (extreme_) return FillExtreme(text);
    // A few texts again and again, some new ones, some with any byte, seldom very long ones.
    const uint64_t choice = Below(20);
    if (choice < 5) return;
    if (choice < 15) {
      text = store_.Keep("kernel_" + std::to_string(Below(10)));
      return;
    }
    std::string bytes(choice == 19 ? Below(4096) : Below(30), ' ');
    for (char& c : bytes) c = static_cast<char>(random_());
    text = store_.Keep(std::move(bytes));
  }
  void Fill(bool& value) { value = Below(2) != 0; }
  void Fill(double& value) {
    value = static_cast<double>(random_()) / 1e9;
    using Limits = std::numeric_limits<double>;
    constexpr std::array kExtremes = {Limits::quiet_NaN(),
                                      -Limits::quiet_NaN(),
                                      Limits::infinity(),
                                      -Limits::infinity(),
                                      Limits::denorm_min(),
                                      Limits::max(),
                                      Limits::lowest(),
                                      -0.0,
                                      0.0};
    if (extreme_) value = kExtremes[Below(kExtremes.size())];
  }
  template <Scalar T>
  void Fill(T& value) {
    if (extreme_) return FillExtreme(value);
    if constexpr (sizeof(T) == 1) {
      value = static_cast<T>(Below(256));
      return;
    }
    // Small, close to the last, or anything at all.
    const uint64_t choice = Below(4);
    if (choice == 0) return;
    if (choice == 1) value = static_cast<T>(Below(100));
    if (choice == 2) value = static_cast<T>(last_ += Below(1000));
    if (choice == 3) value = static_cast<T>(random_());
  }
  template <typename T>
  void Fill(event::List<T>& list) {
    list = MakeList<T>(extreme_ ? ExtremeLength() : Below(5));
  }

  // Nothing, one byte, the longest there is; text, or any bytes.
  void FillExtreme(event::Text& text) {
    constexpr std::array<size_t, 5> kLengths = {0, 1, 2, event::kMaxTextBytes - 1, event::kMaxTextBytes};
    std::string bytes(kLengths[Below(in_list_ ? 3 : kLengths.size())], 'x');
    const bool any_bytes = Below(2) == 0;
    for (char& c : bytes) c = any_bytes ? static_cast<char>(random_()) : 'x';
    text = store_.Keep(std::string(event::CutText(bytes, event::kMaxTextBytes)));
  }
  template <Scalar T>
  void FillExtreme(T& value) {
    constexpr std::array<uint64_t, 6> kExtremes = {
        0, 1, UINT64_MAX, uint64_t{1} << 63, (uint64_t{1} << 63) - 1, uint64_t{1} << 32};
    value = static_cast<T>(kExtremes[Below(kExtremes.size())]);
  }
  // Around the sizes of the decoder's batches; seldom long.
  size_t ExtremeLength() {
    constexpr std::array<size_t, 6> kLengths = {0, 0, 1, 255, 256, 257};
    return Below(50) == 0 ? 3000 : kLengths[Below(kLengths.size())];
  }
  template <typename T>
    requires(!Scalar<T>)
  void Fill(T& fields) {
    VisitFields(fields, [this](std::string_view, bool, auto& field) { this->Fill(field); });
  }
  template <typename T>
  event::List<T> MakeList(size_t count) {
    std::vector<T> elements(count);
    in_list_ = true;
    for (T& element : elements) Fill(element);
    in_list_ = false;
    return store_.Keep(std::move(elements));
  }

  std::mt19937_64 random_;
  bool extreme_;
  bool in_list_ = false;  // Where long texts would be too many.
  EventStore store_;
  uint64_t clock_ns_ = 1'000'000'000;
  uint64_t last_ = 0;
};

// All that an event says, as bytes: two events are equal when these are.
class Fingerprint {
 public:
  static std::string Of(const event::Event& event) {
    Fingerprint print;
    print.Add(event.envelope.ts_ns);
    print.Add(event.envelope.seq);
    print.Add(event.envelope.pid);
    print.Add(event.envelope.tid);
    print.Add(event.envelope.api);
    print.Add(event.payload.index());
    std::visit([&](const auto& fields) { print.Add(fields); }, event.payload);
    return std::move(print.bytes_);
  }

 private:
  void Add(const event::Opaque& opaque) {
    Add(opaque.kind_number);
    Add(opaque.bytes);
  }
  void Add(const event::Text& text) {
    Add(text.view.size());
    bytes_ += text.view;
  }
  template <Scalar T>
  void Add(T value) {
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  template <typename T>
  void Add(const event::List<T>& list) {
    Add(list.size());
    for (const T& element : list) Add(element);
  }
  template <typename T>
    requires(!Scalar<T>)
  void Add(const T& fields) {
    VisitFields(fields, [this](std::string_view, bool, const auto& field) { this->Add(field); });
  }

  std::string bytes_;
};

}  // namespace smeltr::session::testing
