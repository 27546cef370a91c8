// As much of the binary interface of NVIDIA's management library (NVML) as is used, declared here so that
// nothing of it is needed to build. The library is opened at run time.
#pragma once

#include <array>
#include <cstdint>

namespace smeltr::probe::nvml {

using Return = int;
using Device = void*;

inline constexpr Return kSuccess = 0;
inline constexpr Return kNotFound = 6;
inline constexpr Return kGpuIsLost = 15;

enum ClockType : unsigned { kClockGraphics = 0, kClockSm = 1, kClockMemory = 2 };
enum Threshold : unsigned { kThresholdShutdown = 0, kThresholdSlowdown = 1 };
inline constexpr unsigned kSensorGpu = 0;
inline constexpr unsigned kEccUncorrected = 1;
inline constexpr unsigned kEccSinceLoad = 0;
inline constexpr uint64_t kValueNotAvailable = UINT64_MAX;

struct PciInfo {
  std::array<char, 16> bus_id_legacy;
  unsigned domain;
  unsigned bus;
  unsigned device;
  unsigned device_id;
  unsigned subsystem_id;
  std::array<char, 32> bus_id;
};
static_assert(sizeof(PciInfo) == 68);

struct Utilization {
  unsigned gpu;
  unsigned memory;
};

struct Memory {
  uint64_t total;
  uint64_t free;
  uint64_t used;
};

struct MemoryV2 {
  unsigned version;
  uint64_t total;
  uint64_t reserved;
  uint64_t free;
  uint64_t used;
};
static_assert(sizeof(MemoryV2) == 40);
inline constexpr unsigned kMemoryV2 = sizeof(MemoryV2) | 2U << 24;

struct ProcessInfo {
  unsigned pid;
  uint64_t used_bytes;
  unsigned gpu_instance;
  unsigned compute_instance;
};
static_assert(sizeof(ProcessInfo) == 24);

struct ProcessUtilization {
  unsigned pid;
  uint64_t time_us;
  unsigned sm;
  unsigned memory;
  unsigned encoder;
  unsigned decoder;
};
static_assert(sizeof(ProcessUtilization) == 32);

// Bits of the reasons for which clocks are lowered. Idle, application and display clocks are left out: they
// are no faults.
inline constexpr uint64_t kSwPowerCap = 0x4;
inline constexpr uint64_t kHwSlowdown = 0x8;
inline constexpr uint64_t kSwThermal = 0x20;
inline constexpr uint64_t kHwThermal = 0x40;
inline constexpr uint64_t kHwPowerBrake = 0x80;

// The functions; a member that stays null is missing in the library that was found.
struct Functions {
  Return (*init)();
  Return (*shutdown)();
  const char* (*error_string)(Return);
  Return (*device_count)(unsigned*);
  Return (*device_by_index)(unsigned, Device*);
  Return (*name)(Device, char*, unsigned);
  Return (*pci_info)(Device, PciInfo*);
  Return (*utilization)(Device, Utilization*);
  Return (*memory)(Device, Memory*);
  Return (*memory_v2)(Device, MemoryV2*);
  Return (*power_mw)(Device, unsigned*);
  Return (*energy_mj)(Device, unsigned long long*);
  Return (*clock_mhz)(Device, unsigned, unsigned*);
  Return (*temperature_c)(Device, unsigned, unsigned*);
  Return (*threshold_c)(Device, unsigned, unsigned*);
  Return (*clock_reasons)(Device, unsigned long long*);
  Return (*ecc_errors)(Device, unsigned, unsigned, unsigned long long*);
  Return (*pcie_replays)(Device, unsigned*);
  Return (*compute_processes)(Device, unsigned*, ProcessInfo*);
  Return (*graphics_processes)(Device, unsigned*, ProcessInfo*);
  Return (*process_utilization)(Device, ProcessUtilization*, unsigned*, unsigned long long);
};

}  // namespace smeltr::probe::nvml
