#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>

#include "probe/directory.h"
#include "probe/fdinfo.h"
#include "probe/gpu.h"
#include "probe/proc_text.h"
#include "probe/sampled_file.h"
#include "probe/thermal.h"

namespace smeltr::probe {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
// A process with more descriptors than that is not searched to the end.
constexpr size_t kMaxDescriptors = 4096;

std::string ReadWord(const std::string& path) {
  std::array<char, 256> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
  std::string_view text = ReadSmallFile(path, buffer).value_or("");
  return std::string(TakeLine(text));
}

std::string FileNameOfLink(const std::string& path) {
  std::error_code error;
  return std::filesystem::read_symlink(path, error).filename().native();
}

struct DrmCard {
  std::string driver;
  std::string name;
  std::string pci_address;
  std::string card;  // Its directories in sysfs.
  std::string device;
  std::string monitor;  // Empty without one.
  // The reading before, for what is counted: idle time and energy.
  uint64_t before_ns = 0;
  std::optional<uint64_t> idle_ms;
  std::optional<uint64_t> energy_uj;
};

// The number in the first of these files that has one.
std::optional<uint64_t> FirstNumber(std::initializer_list<std::string> paths) {
  for (const std::string& path : paths) {
    std::array<char, 64> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
    const auto text = ReadSmallFile(path, buffer);
    if (const auto value = text.has_value() ? LeadingNumber(*text) : std::nullopt) return value;
  }
  return std::nullopt;
}

std::optional<DrmCard> FindCard(const std::string& directory) {
  DrmCard card;
  card.driver = FileNameOfLink(directory + "/device/driver");
  card.card = directory;
  card.device = directory + "/device";
  if (card.driver != "amdgpu" && card.driver != "i915" && card.driver != "xe") return std::nullopt;
  std::array<char, 1024> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
  std::string_view text = ReadSmallFile(card.device + "/uevent", buffer).value_or("");
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    constexpr std::string_view kSlot = "PCI_SLOT_NAME=";
    if (line.starts_with(kSlot)) card.pci_address = line.substr(kSlot.size());
  }
  card.name = ReadWord(card.device + "/product_name");
  if (card.name.empty()) card.name = card.driver + " " + ReadWord(card.device + "/device");
  const auto monitors = ListNames(card.device + "/hwmon", "hwmon");
  if (!monitors.empty()) card.monitor = card.device + "/hwmon/" + monitors.front();
  return card;
}

// Names of the files under `directory` that hold a 1: "reason_thermal" becomes "thermal".
std::string ActiveReasons(const std::string& directory, std::string_view prefix) {
  std::string reasons;
  for (const std::string& name : ListNames(directory, prefix)) {
    const std::string reason = name.substr(prefix.size());
    if (reason == "status" || FirstNumber({directory + "/" + name}).value_or(0) == 0) continue;
    if (!reasons.empty()) reasons += ',';
    reasons += reason;
  }
  return reasons;
}

void ReadMonitor(const DrmCard& card, GpuReading& reading) {
  if (card.monitor.empty()) return;
  event::GpuDeviceSample& sample = reading.sample;
  const std::string at = card.monitor + "/";
  sample.power_mw = FirstNumber({at + "power1_average", at + "power1_input"}).value_or(0) / 1000;
  const double temperature_c =
      static_cast<double>(FirstNumber({at + "temp1_input", at + "temp2_input"}).value_or(0)) / 1000;
  sample.temperature_c = temperature_c;
  const double critical_c =
      static_cast<double>(FirstNumber({at + "temp1_crit", at + "temp2_crit"}).value_or(0)) / 1000;
  const double emergency_c =
      static_cast<double>(FirstNumber({at + "temp1_emergency", at + "temp2_emergency"}).value_or(0)) / 1000;
  reading.heat_level = ThermalLevel(temperature_c, critical_c, emergency_c);
}

class DrmBackend : public GpuBackend {
 public:
  explicit DrmBackend(Roots roots) : roots_(std::move(roots)) {}

  bool Open(std::string& /*reason*/) override {
    cards_.clear();
    const std::string base = roots_.sys + "/class/drm";
    for (const std::string& name : ListNames(base, "card")) {
      // "card0-HDMI-A-1" is an output of card0.
      if (name.find('-') != std::string::npos) continue;
      if (auto card = FindCard(base + "/" + name)) cards_.push_back(std::move(*card));
    }
    return !cards_.empty();
  }

  std::vector<GpuReading> ReadDevices(uint64_t now_ns) override {
    std::vector<GpuReading> readings;
    for (DrmCard& card : cards_) {
      if (::access(card.device.c_str(), F_OK) != 0) break;
      readings.push_back(card.driver == "amdgpu" ? ReadAmd(card) : ReadIntel(card, now_ns));
      card.before_ns = now_ns;
    }
    return readings;
  }

  std::vector<GpuUse> ReadUses(uint64_t now_ns, const std::vector<uint32_t>& pids) override {
    std::map<ClientKey, DrmClient> clients;
    std::vector<GpuUse> uses;
    for (const uint32_t pid : pids) AddUses(pid, now_ns - uses_ns_, clients, uses);
    clients_ = std::move(clients);
    uses_ns_ = now_ns;
    return uses;
  }

 private:
  using ClientKey = std::pair<std::string, uint64_t>;

  static GpuReading ReadAmd(const DrmCard& card) {
    GpuReading reading;
    reading.name = card.name;
    reading.pci_address = card.pci_address;
    event::GpuDeviceSample& sample = reading.sample;
    const auto busy = FirstNumber({card.device + "/gpu_busy_percent"});
    const auto memory_busy = FirstNumber({card.device + "/mem_busy_percent"});
    sample.utilisation_pct = busy.has_value() ? static_cast<double>(*busy) : kUnknown;
    sample.memory_utilisation_pct = memory_busy.has_value() ? static_cast<double>(*memory_busy) : kUnknown;
    sample.used_bytes = FirstNumber({card.device + "/mem_info_vram_used"}).value_or(0);
    sample.total_bytes = FirstNumber({card.device + "/mem_info_vram_total"}).value_or(0);
    sample.pcie_replay_count = FirstNumber({card.device + "/pcie_replay_count"}).value_or(0);
    if (!card.monitor.empty()) {
      constexpr uint64_t kHzPerMhz = 1'000'000;
      sample.clock_mhz =
          static_cast<uint32_t>(FirstNumber({card.monitor + "/freq1_input"}).value_or(0) / kHzPerMhz);
      sample.memory_clock_mhz =
          static_cast<uint32_t>(FirstNumber({card.monitor + "/freq2_input"}).value_or(0) / kHzPerMhz);
    }
    ReadMonitor(card, reading);
    return reading;
  }

  // i915 and xe count the time in which the GPU slept; the rest it was awake, if not always busy.
  static GpuReading ReadIntel(DrmCard& card, uint64_t now_ns) {
    GpuReading reading;
    reading.name = card.name;
    reading.pci_address = card.pci_address;
    event::GpuDeviceSample& sample = reading.sample;
    const std::string xe = card.device + "/tile0/gt0";
    const std::string gt = card.card + "/gt/gt0";
    sample.utilisation_pct = kUnknown;
    sample.memory_utilisation_pct = kUnknown;
    const auto idle_ms = FirstNumber(
        {xe + "/gtidle/idle_residency_ms", gt + "/rc6_residency_ms", card.card + "/power/rc6_residency_ms"});
    if (idle_ms.has_value() && card.idle_ms.has_value() && now_ns > card.before_ns) {
      const double idle_ns = static_cast<double>(*idle_ms - std::min(*idle_ms, *card.idle_ms)) * 1e6;
      sample.utilisation_pct =
          std::clamp(100.0 - 100.0 * idle_ns / static_cast<double>(now_ns - card.before_ns), 0.0, 100.0);
    }
    card.idle_ms = idle_ms;
    sample.clock_mhz = static_cast<uint32_t>(
        FirstNumber({xe + "/freq0/act_freq", gt + "/rps_act_freq_mhz", card.card + "/gt_act_freq_mhz"})
            .value_or(0));
    ReadMonitor(card, reading);
    const auto energy_uj = FirstNumber({card.monitor + "/energy1_input"});
    if (!card.monitor.empty() && energy_uj.has_value()) {
      sample.energy_mj = *energy_uj / 1000;
      if (sample.power_mw == 0 && card.energy_uj.has_value() && now_ns > card.before_ns) {
        const uint64_t used_uj = *energy_uj - std::min(*energy_uj, *card.energy_uj);
        sample.power_mw = static_cast<uint64_t>(static_cast<double>(used_uj) * 1e6 /
                                                static_cast<double>(now_ns - card.before_ns));
      }
    }
    card.energy_uj = energy_uj;
    reading.throttle_reasons = ActiveReasons(xe + "/freq0/throttle", "reason_");
    if (reading.throttle_reasons.empty()) reading.throttle_reasons = ActiveReasons(gt, "throttle_reason_");
    const bool is_hot = reading.throttle_reasons.find("thermal") != std::string::npos ||
                        reading.throttle_reasons.find("prochot") != std::string::npos;
    if (is_hot) reading.heat_level = std::max(reading.heat_level, 2);
    return reading;
  }

  // Adds what `pid` uses of each card. A client that several processes share counts for the first of them.
  void AddUses(uint32_t pid, uint64_t elapsed_ns, std::map<ClientKey, DrmClient>& clients,
               std::vector<GpuUse>& uses) const {
    const std::string process = roots_.proc + "/" + std::to_string(pid);
    const auto descriptors = ListNames(process + "/fd", "");
    std::map<uint32_t, GpuUse> by_card;
    std::array<char, 8192> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read into.
    for (size_t i = 0; i < std::min(descriptors.size(), kMaxDescriptors); ++i) {
      std::array<char, 16> target{};
      // Long links are cut: the beginning tells.
      if (::readlink((process + "/fd/" + descriptors[i]).c_str(), target.data(), target.size()) <= 0)
        continue;
      if (!std::string_view(target.data(), target.size()).starts_with("/dev/dri/")) continue;
      const auto text = ReadSmallFile(process + "/fdinfo/" + descriptors[i], buffer);
      auto client = text.has_value() ? ParseFdinfo(*text) : std::nullopt;
      if (!client.has_value()) continue;
      const auto card = std::ranges::find(cards_, client->pci_address, &DrmCard::pci_address);
      const ClientKey key{client->pci_address, client->client_id};
      if (card == cards_.end() || clients.contains(key)) continue;
      GpuUse& use = by_card[static_cast<uint32_t>(card - cards_.begin())];
      use.used_bytes += client->used_bytes;
      const auto before = clients_.find(key);
      if (before != clients_.end()) use.busy_pct += BusyPercent(before->second, *client, elapsed_ns);
      clients.emplace(key, std::move(*client));
    }
    for (auto& [index, use] : by_card) {
      use.pid = pid;
      use.device = index;
      uses.push_back(use);
    }
  }

  Roots roots_;
  std::vector<DrmCard> cards_;
  std::map<ClientKey, DrmClient> clients_;  // As they were at uses_ns_.
  uint64_t uses_ns_ = 0;
};

}  // namespace

std::unique_ptr<GpuBackend> MakeDrmBackend(const Roots& roots) { return std::make_unique<DrmBackend>(roots); }

}  // namespace smeltr::probe
