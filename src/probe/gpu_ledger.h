// What the gpu probe found, for the probes that mention it: the footprint of a process has its GPU memory,
// the thermal state the GPU's. Thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace smeltr::probe {

class GpuLedger {
 public:
  struct Use {
    uint64_t used_bytes = 0;
    double busy_pct = 0;
  };
  // The hottest of the devices, with how much it is held back: see thermal.h.
  struct Heat {
    int level = 0;
    double temperature_c = 0;
    std::string sensor;
    std::string throttle_reasons;
  };

  void SetUses(uint64_t now_ns, std::map<uint32_t, Use> by_pid) {
    const std::lock_guard lock(mutex_);
    uses_ = std::move(by_pid);
    uses_ns_ = now_ns;
  }
  void SetHeat(uint64_t now_ns, std::optional<Heat> heat) {
    const std::lock_guard lock(mutex_);
    heat_ = std::move(heat);
    heat_ns_ = now_ns;
  }
  // Nothing when the gpu probe has said nothing for a while: it may hang.
  std::optional<Use> FindUse(uint64_t now_ns, uint32_t pid) const {
    const std::lock_guard lock(mutex_);
    const auto at = uses_.find(pid);
    if (at == uses_.end() || now_ns > uses_ns_ + kFreshNs) return std::nullopt;
    return at->second;
  }
  std::optional<Heat> FindHeat(uint64_t now_ns) const {
    const std::lock_guard lock(mutex_);
    if (now_ns > heat_ns_ + kHeatFreshNs) return std::nullopt;
    return heat_;
  }

 private:
  static constexpr uint64_t kFreshNs = 5'000'000'000;
  static constexpr uint64_t kHeatFreshNs = 45'000'000'000;  // At rest there is a reading in 30 s.
  mutable std::mutex mutex_;
  std::map<uint32_t, Use> uses_;
  uint64_t uses_ns_ = 0;
  std::optional<Heat> heat_;
  uint64_t heat_ns_ = 0;
};

}  // namespace smeltr::probe
