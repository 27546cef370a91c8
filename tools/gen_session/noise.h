// Random times that cost next to nothing, the same for the same seed on every machine.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace smeltr::gen_session {

class Noise {
 public:
  explicit Noise(uint64_t seed) : state_(seed * 0x9E3779B97F4A7C15ULL + 0xD1B54A32D192ED03ULL) {
    for (size_t i = 0; i < kSteps; ++i) {
      table_[i] = -std::log((static_cast<double>(i) + 0.5) / static_cast<double>(kSteps));
    }
  }

  uint64_t Bits() {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return state_;
  }
  uint64_t Below(uint64_t limit) { return (Bits() >> 11) % limit; }
  // Exponentially distributed: what waits and jitter look like.
  uint64_t Wait(uint64_t mean_ns) {
    return static_cast<uint64_t>(static_cast<double>(mean_ns) * table_[(Bits() >> 20) % kSteps]);
  }

 private:
  static constexpr size_t kSteps = 4096;
  uint64_t state_;
  std::array<double, kSteps> table_{};
};

}  // namespace smeltr::gen_session
