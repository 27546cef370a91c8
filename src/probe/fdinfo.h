// What a DRM driver says of one client in /proc/<pid>/fdinfo/<fd>. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace smeltr::probe {

struct DrmEngine {
  std::string name;
  uint64_t busy_ns = 0;  // Drivers count time ...
  uint64_t cycles = 0;   // ... or cycles, out of so many that have passed.
  uint64_t total_cycles = 0;
  uint64_t capacity = 1;  // Engines of this kind.
};

struct DrmClient {
  std::string pci_address;  // Empty for a device on another bus.
  uint64_t client_id = 0;   // The same in every process and descriptor that shares it.
  uint64_t used_bytes = 0;  // In the device's own memory, if it has some; else in all it uses.
  std::vector<DrmEngine> engines;
};

// nullopt for a descriptor of anything else.
std::optional<DrmClient> ParseFdinfo(std::string_view text);

// Of the busiest kind of engine, since the reading before; 0 where nothing can be told.
double BusyPercent(const DrmClient& before, const DrmClient& now, uint64_t elapsed_ns);

}  // namespace smeltr::probe
