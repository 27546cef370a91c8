#include "probe/fdinfo.h"

#include <algorithm>

#include "probe/proc_text.h"

namespace smeltr::probe {
namespace {

// No driver has more kinds of engines or regions; a text may claim anything.
constexpr size_t kMaxEngines = 64;
constexpr size_t kMaxRegions = 64;

struct Region {
  std::string name;
  std::optional<uint64_t> resident;
  std::optional<uint64_t> memory;
  std::optional<uint64_t> total;
};

// Finds or makes the entry of that name; null when there are too many.
template <typename T>
T* Named(std::vector<T>& entries, std::string_view name, size_t limit) {
  const auto at = std::ranges::find(entries, name, &T::name);
  if (at != entries.end()) return &*at;
  if (entries.size() >= limit) return nullptr;
  entries.emplace_back().name = name;
  return &entries.back();
}

// "123 KiB"; without a unit, bytes.
std::optional<uint64_t> ParseSize(std::string_view text) {
  const std::string_view number = TakeWord(text);
  const auto value = LeadingNumber(number);
  if (!value.has_value()) return std::nullopt;
  const std::string_view unit = TakeWord(text);
  const int shift = unit == "KiB" ? 10 : unit == "MiB" ? 20 : 0;
  if (*value > UINT64_MAX >> shift) return std::nullopt;
  return *value << shift;
}

bool TakePrefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

void TakeEngine(std::string_view key, std::string_view value, DrmClient& client) {
  uint64_t DrmEngine::* field = nullptr;
  if (TakePrefix(key, "engine-capacity-")) {
    field = &DrmEngine::capacity;
  } else if (TakePrefix(key, "engine-")) {
    field = &DrmEngine::busy_ns;
  } else if (TakePrefix(key, "total-cycles-")) {
    field = &DrmEngine::total_cycles;
  } else if (TakePrefix(key, "cycles-")) {
    field = &DrmEngine::cycles;
  }
  DrmEngine* engine = field == nullptr ? nullptr : Named(client.engines, key, kMaxEngines);
  if (engine != nullptr) engine->*field = LeadingNumber(value).value_or(0);
}

void TakeRegion(std::string_view key, std::string_view value, std::vector<Region>& regions) {
  std::optional<uint64_t> Region::* field = nullptr;
  if (TakePrefix(key, "resident-")) {
    field = &Region::resident;
  } else if (TakePrefix(key, "memory-")) {
    field = &Region::memory;
  } else if (!key.starts_with("total-cycles-") && TakePrefix(key, "total-")) {
    field = &Region::total;
  }
  Region* region = field == nullptr ? nullptr : Named(regions, key, kMaxRegions);
  if (region != nullptr) region->*field = ParseSize(value);
}

uint64_t UsedBytes(const std::vector<Region>& regions) {
  const auto is_own = [](const Region& region) { return region.name.starts_with("vram"); };
  const bool has_own = std::ranges::any_of(regions, is_own);
  uint64_t used = 0;
  for (const Region& region : regions) {
    if (has_own && !is_own(region)) continue;
    const uint64_t bytes = region.resident.value_or(region.memory.value_or(region.total.value_or(0)));
    used += std::min(bytes, UINT64_MAX - used);
  }
  return used;
}

uint64_t Growth(uint64_t before, uint64_t now) { return now - std::min(before, now); }

}  // namespace

std::optional<DrmClient> ParseFdinfo(std::string_view text) {
  DrmClient client;
  bool is_drm = false;
  bool has_id = false;
  std::vector<Region> regions;
  while (!text.empty()) {
    const std::string_view line = TakeLine(text);
    const size_t colon = line.find(':');
    if (colon == std::string_view::npos) continue;
    std::string_view key = line.substr(0, colon);
    std::string_view value = line.substr(colon + 1);
    if (!TakePrefix(key, "drm-")) continue;
    if (key == "driver") is_drm = true;
    if (key == "pdev") client.pci_address = TakeWord(value);
    if (key == "client-id") {
      const auto id = LeadingNumber(TakeWord(value));
      has_id = id.has_value();
      client.client_id = id.value_or(0);
    }
    TakeEngine(key, value, client);
    TakeRegion(key, value, regions);
  }
  if (!is_drm || !has_id) return std::nullopt;
  client.used_bytes = UsedBytes(regions);
  return client;
}

double BusyPercent(const DrmClient& before, const DrmClient& now, uint64_t elapsed_ns) {
  double busiest = 0;
  for (const DrmEngine& engine : now.engines) {
    const auto past = std::ranges::find(before.engines, engine.name, &DrmEngine::name);
    if (past == before.engines.end()) continue;
    const auto capacity = static_cast<double>(std::max<uint64_t>(engine.capacity, 1));
    double share = 0;
    if (const uint64_t total = Growth(past->total_cycles, engine.total_cycles); total > 0) {
      share = static_cast<double>(Growth(past->cycles, engine.cycles)) / static_cast<double>(total);
    } else if (elapsed_ns > 0) {
      share = static_cast<double>(Growth(past->busy_ns, engine.busy_ns)) / static_cast<double>(elapsed_ns);
    }
    busiest = std::max(busiest, 100 * share / capacity);
  }
  return busiest;
}

}  // namespace smeltr::probe
