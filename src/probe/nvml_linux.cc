#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <map>

#include "probe/gpu.h"
#include "probe/nvml_abi.h"
#include "probe/thermal.h"

namespace smeltr::probe {
namespace {

constexpr size_t kMaxDevices = 64;
constexpr size_t kMaxProcesses = 256;
// Counters that hardly ever change, and the energy, which takes the driver 4 ms, are asked for once in so
// many readings.
constexpr uint64_t kRareEvery = 10;

struct NvmlDevice {
  nvml::Device handle = nullptr;
  std::string name;
  std::string pci_address;
  double slowdown_c = 0;
  double shutdown_c = 0;
  uint64_t readings = 0;
  uint64_t energy_mj = 0;
  uint64_t ecc_error_count = 0;
  uint64_t pcie_replay_count = 0;
  unsigned long long last_sample_us = 0;
};

// The library's numbers, where a function exists and succeeds; else `otherwise`.
template <typename T, typename F, typename... Arguments>
T Ask(T otherwise, F function, Arguments... arguments) {
  T value{};
  if (function == nullptr || function(arguments..., &value) != nvml::kSuccess) return otherwise;
  return value;
}

// "00000000:3B:00.0" as the rest of the system writes it: "0000:3b:00.0".
std::string PciAddress(std::string_view text) {
  if (const size_t colon = text.find(':'); colon > 4 && text.starts_with("0000"))
    text.remove_prefix(colon - 4);
  std::string address(text);
  std::ranges::transform(address, address.begin(), [](unsigned char c) { return std::tolower(c); });
  return address;
}

std::string ReasonText(uint64_t reasons) {
  struct Reason {
    uint64_t bit;
    std::string_view name;
  };
  static constexpr std::array kReasons = {
      Reason{nvml::kSwPowerCap, "sw_power_cap"}, Reason{nvml::kHwSlowdown, "hw_slowdown"},
      Reason{nvml::kSwThermal, "sw_thermal"}, Reason{nvml::kHwThermal, "hw_thermal"},
      Reason{nvml::kHwPowerBrake, "hw_power_brake"}};
  std::string text;
  for (const Reason& reason : kReasons) {
    if ((reasons & reason.bit) == 0) continue;
    if (!text.empty()) text += ',';
    text += reason.name;
  }
  return text;
}

int HeatLevel(double temperature_c, uint64_t reasons, const NvmlDevice& device) {
  constexpr uint64_t kHardware = nvml::kHwSlowdown | nvml::kHwThermal | nvml::kHwPowerBrake;
  int level = ThermalLevel(temperature_c, device.slowdown_c, device.shutdown_c);
  if ((reasons & nvml::kSwThermal) != 0) level = std::max(level, 1);
  if ((reasons & kHardware) != 0) level = std::max(level, 2);
  return level;
}

class NvmlBackend : public GpuBackend {
 public:
  explicit NvmlBackend(std::string library) : library_(std::move(library)) {}

  bool Open(std::string& reason) override {
    if (!Load(reason)) return false;
    // Again after a loss too: a device that came back has a new handle.
    if (const nvml::Return result = functions_.init(); result != nvml::kSuccess) {
      reason = "NVIDIA's library is here but not its driver: " + ErrorText(result);
      return false;
    }
    devices_.clear();
    unsigned count = 0;
    if (const nvml::Return result = functions_.device_count(&count); result != nvml::kSuccess) {
      reason = "NVIDIA's driver counts no devices: " + ErrorText(result);
      return false;
    }
    for (unsigned i = 0; i < std::min<size_t>(count, kMaxDevices); ++i) {
      NvmlDevice device;
      if (functions_.device_by_index(i, &device.handle) != nvml::kSuccess) continue;
      Describe(device);
      devices_.push_back(std::move(device));
    }
    return !devices_.empty();
  }

  std::vector<GpuReading> ReadDevices(uint64_t /*now_ns*/) override {
    std::vector<GpuReading> readings;
    for (NvmlDevice& device : devices_) {
      nvml::Utilization use{};
      const nvml::Return result =
          functions_.utilization == nullptr ? nvml::kNotFound : functions_.utilization(device.handle, &use);
      if (result == nvml::kGpuIsLost) break;
      readings.push_back(Read(device, use, result == nvml::kSuccess));
    }
    return readings;
  }

  std::vector<GpuUse> ReadUses(uint64_t /*now_ns*/, const std::vector<uint32_t>& pids) override {
    std::vector<GpuUse> uses;
    for (size_t i = 0; i < devices_.size(); ++i) {
      const auto index = static_cast<uint32_t>(i);
      std::map<uint32_t, GpuUse> by_pid;
      AddMemory(devices_[i], functions_.compute_processes, by_pid);
      AddMemory(devices_[i], functions_.graphics_processes, by_pid);
      AddBusy(devices_[i], by_pid);
      for (auto& [pid, use] : by_pid) {
        use.pid = pid;
        use.device = index;
        if (std::ranges::find(pids, pid) != pids.end()) uses.push_back(use);
      }
    }
    return uses;
  }

  // The library has 15 MB of its own, which only unloading gives back; loading it takes 20 ms.
  bool Rest() override {
    if (functions_.shutdown == nullptr || functions_.shutdown() != nvml::kSuccess) return false;
    ::dlclose(handle_);
    handle_ = nullptr;
    functions_ = {};
    devices_.clear();
    return true;
  }

 private:
  template <typename F>
  void Find(F& function, const char* symbol, const char* older = nullptr) {
    void* found = ::dlsym(handle_, symbol);
    if (found == nullptr && older != nullptr) found = ::dlsym(handle_, older);
    function = reinterpret_cast<F>(found);
  }

  bool Load(std::string& reason) {
    if (functions_.device_by_index != nullptr) return true;
    if (handle_ == nullptr) handle_ = ::dlopen(library_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (handle_ == nullptr) return false;
    Find(functions_.init, "nvmlInit_v2");
    Find(functions_.shutdown, "nvmlShutdown");
    Find(functions_.error_string, "nvmlErrorString");
    Find(functions_.device_count, "nvmlDeviceGetCount_v2");
    Find(functions_.name, "nvmlDeviceGetName");
    Find(functions_.pci_info, "nvmlDeviceGetPciInfo_v3", "nvmlDeviceGetPciInfo_v2");
    Find(functions_.utilization, "nvmlDeviceGetUtilizationRates");
    Find(functions_.memory, "nvmlDeviceGetMemoryInfo");
    Find(functions_.memory_v2, "nvmlDeviceGetMemoryInfo_v2");
    Find(functions_.power_mw, "nvmlDeviceGetPowerUsage");
    Find(functions_.energy_mj, "nvmlDeviceGetTotalEnergyConsumption");
    Find(functions_.clock_mhz, "nvmlDeviceGetClockInfo");
    Find(functions_.temperature_c, "nvmlDeviceGetTemperature");
    Find(functions_.threshold_c, "nvmlDeviceGetTemperatureThreshold");
    Find(functions_.clock_reasons, "nvmlDeviceGetCurrentClocksEventReasons",
         "nvmlDeviceGetCurrentClocksThrottleReasons");
    Find(functions_.ecc_errors, "nvmlDeviceGetTotalEccErrors");
    Find(functions_.pcie_replays, "nvmlDeviceGetPcieReplayCounter");
    // Version 2 has the same layout.
    Find(functions_.compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3",
         "nvmlDeviceGetComputeRunningProcesses_v2");
    Find(functions_.graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3",
         "nvmlDeviceGetGraphicsRunningProcesses_v2");
    Find(functions_.process_utilization, "nvmlDeviceGetProcessUtilization");
    if (functions_.init != nullptr && functions_.device_count != nullptr) {
      Find(functions_.device_by_index, "nvmlDeviceGetHandleByIndex_v2");
    }
    if (functions_.device_by_index == nullptr) reason = library_ + " is too old to be used";
    return functions_.device_by_index != nullptr;
  }

  std::string ErrorText(nvml::Return result) const {
    const char* text = functions_.error_string == nullptr ? nullptr : functions_.error_string(result);
    return text == nullptr ? "error " + std::to_string(result) : text;
  }

  void Describe(NvmlDevice& device) const {
    std::array<char, 96> name{};
    if (functions_.name != nullptr) {
      functions_.name(device.handle, name.data(), static_cast<unsigned>(name.size() - 1));
    }
    device.name = name.data();
    nvml::PciInfo pci = Ask(nvml::PciInfo{}, functions_.pci_info, device.handle);
    pci.bus_id.back() = '\0';
    device.pci_address = PciAddress(pci.bus_id.data());
    device.slowdown_c = Ask(0U, functions_.threshold_c, device.handle, unsigned{nvml::kThresholdSlowdown});
    device.shutdown_c = Ask(0U, functions_.threshold_c, device.handle, unsigned{nvml::kThresholdShutdown});
  }

  GpuReading Read(NvmlDevice& device, const nvml::Utilization& use, bool use_known) {
    constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();
    GpuReading reading;
    reading.name = device.name;
    reading.pci_address = device.pci_address;
    event::GpuDeviceSample& sample = reading.sample;
    sample.utilisation_pct = use_known ? use.gpu : kUnknown;
    sample.memory_utilisation_pct = use_known ? use.memory : kUnknown;
    // The second version leaves out what the driver reserves for itself, as nvidia-smi does.
    nvml::MemoryV2 memory{.version = nvml::kMemoryV2, .total = 0, .reserved = 0, .free = 0, .used = 0};
    if (functions_.memory_v2 == nullptr || functions_.memory_v2(device.handle, &memory) != nvml::kSuccess) {
      const nvml::Memory older = Ask(nvml::Memory{}, functions_.memory, device.handle);
      memory.total = older.total;
      memory.used = older.used;
    }
    sample.used_bytes = memory.used;
    sample.total_bytes = memory.total;
    sample.power_mw = Ask(0U, functions_.power_mw, device.handle);
    sample.clock_mhz = Ask(0U, functions_.clock_mhz, device.handle, unsigned{nvml::kClockSm});
    sample.memory_clock_mhz = Ask(0U, functions_.clock_mhz, device.handle, unsigned{nvml::kClockMemory});
    sample.temperature_c = Ask(0U, functions_.temperature_c, device.handle, nvml::kSensorGpu);
    const uint64_t reasons = Ask(0ULL, functions_.clock_reasons, device.handle);
    reading.throttle_reasons = ReasonText(reasons);
    reading.heat_level = HeatLevel(sample.temperature_c, reasons, device);
    if (device.readings++ % kRareEvery == 0) {
      device.energy_mj = Ask(0ULL, functions_.energy_mj, device.handle);
      device.ecc_error_count =
          Ask(0ULL, functions_.ecc_errors, device.handle, nvml::kEccUncorrected, nvml::kEccSinceLoad);
      device.pcie_replay_count = Ask(0U, functions_.pcie_replays, device.handle);
    }
    sample.energy_mj = device.energy_mj;
    sample.ecc_error_count = device.ecc_error_count;
    sample.pcie_replay_count = device.pcie_replay_count;
    return reading;
  }

  // A process with both kinds of work is in both lists, with the same sum.
  template <typename F>
  void AddMemory(const NvmlDevice& device, F function, std::map<uint32_t, GpuUse>& by_pid) {
    if (function == nullptr) return;
    auto count = static_cast<unsigned>(processes_.size());
    if (function(device.handle, &count, processes_.data()) != nvml::kSuccess) return;
    for (unsigned i = 0; i < std::min<size_t>(count, processes_.size()); ++i) {
      GpuUse& use = by_pid[processes_[i].pid];
      if (processes_[i].used_bytes == nvml::kValueNotAvailable) continue;
      use.used_bytes = std::max(use.used_bytes, processes_[i].used_bytes);
    }
  }

  // The driver keeps samples in a ring: those that came since the last time, averaged.
  void AddBusy(NvmlDevice& device, std::map<uint32_t, GpuUse>& by_pid) {
    if (functions_.process_utilization == nullptr) return;
    auto count = static_cast<unsigned>(samples_.size());
    if (functions_.process_utilization(device.handle, samples_.data(), &count, device.last_sample_us) !=
        nvml::kSuccess) {
      return;
    }
    std::map<uint32_t, std::pair<double, unsigned>> sums;
    for (unsigned i = 0; i < std::min<size_t>(count, samples_.size()); ++i) {
      const nvml::ProcessUtilization& sample = samples_[i];
      // Entries without a time are unused room of the ring.
      if (sample.time_us == 0 || sample.sm > 100) continue;
      device.last_sample_us = std::max<unsigned long long>(device.last_sample_us, sample.time_us);
      sums[sample.pid].first += sample.sm;
      ++sums[sample.pid].second;
    }
    for (const auto& [pid, sum] : sums) by_pid[pid].busy_pct = sum.first / sum.second;
  }

  std::string library_;
  void* handle_ = nullptr;
  nvml::Functions functions_{};
  std::vector<NvmlDevice> devices_;
  std::array<nvml::ProcessInfo, kMaxProcesses> processes_{};
  std::array<nvml::ProcessUtilization, kMaxProcesses> samples_{};
};

}  // namespace

std::unique_ptr<GpuBackend> MakeNvmlBackend(std::string library) {
  return std::make_unique<NvmlBackend>(std::move(library));
}

}  // namespace smeltr::probe
