// Events of every kind with random content, and payloads as bytes, so that tests can make and compare events
// without knowing their kinds. What is expanded for every kind is compiled once, in frame_bytes.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "event/frame.h"

namespace smeltr::fake {

// Puts every text into the frame itself.
struct NoStrings {
  uint32_t Intern(std::string_view) { return 0; }
};

// Gives texts a number, as the ring's string table does.
class StringNumbers {
 public:
  virtual ~StringNumbers() = default;
  virtual uint32_t Intern(std::string_view text) = 0;
};

// event::EncodeFrame() of any payload but Opaque, which gives 0; texts inline when `numbers` is null.
size_t EncodePayload(event::Api api, uint64_t ts_ns, const event::Payload& payload, StringNumbers* numbers,
                     std::span<std::byte> room);

// Equal bytes, equal payloads. Texts that only carry an id must have been resolved.
std::vector<std::byte> FrameBytes(const event::Payload& payload);

// Makes payloads, and owns what they point to: a payload lives until the next one is made.
class RandomEvents {
 public:
  // Kinds are numbered as in event::Payload; 0 is Opaque, of which none is made.
  static constexpr size_t kFirstKind = 1;
  static constexpr size_t kKindEnd = std::variant_size_v<event::Payload>;

  explicit RandomEvents(uint64_t seed) : random_(seed) {}

  uint64_t Below(uint64_t limit) { return std::uniform_int_distribution<uint64_t>(0, limit - 1)(random_); }

  event::Payload Make(size_t kind);

  // The same for a kind known to the compiler.
  template <typename E>
  E Make() {
    return std::get<E>(Make(event::Payload(E{}).index()));
  }

 private:
  class Filler;

  std::mt19937_64 random_;
  std::vector<std::unique_ptr<std::string>> texts_;
  std::vector<std::shared_ptr<void>> lists_;
};

}  // namespace smeltr::fake
