// A stand-in for NVIDIA's management library, for the gpu probe's tests: two devices, whose figures tests set
// through FakeNvmlState(). Names and signatures are the real library's.

#include "fake/nvml.h"

#include <cstring>

namespace {

using smeltr::fake::NvmlState;
using smeltr::probe::nvml::Device;
using smeltr::probe::nvml::MemoryV2;
using smeltr::probe::nvml::PciInfo;
using smeltr::probe::nvml::ProcessInfo;
using smeltr::probe::nvml::ProcessUtilization;
using smeltr::probe::nvml::Return;
using smeltr::probe::nvml::Utilization;

constexpr Return kNotSupported = 3;
constexpr Return kInsufficientSize = 7;

NvmlState state;
int second_device = 0;

bool IsFirst(Device device) { return device == &state; }

Return Answer(Device device, unsigned value, unsigned* out) {
  if (!IsFirst(device)) return kNotSupported;
  *out = value;
  return 0;
}

}  // namespace

extern "C" {
#define FAKE_NVML __attribute__((visibility("default")))

FAKE_NVML NvmlState* FakeNvmlState() { return &state; }

FAKE_NVML Return nvmlInit_v2() {
  ++state.init_count;
  return state.init_result;
}
FAKE_NVML Return nvmlShutdown() {
  ++state.shutdown_count;
  return 0;
}
FAKE_NVML const char* nvmlErrorString(Return) { return "as the test wants it"; }
FAKE_NVML Return nvmlDeviceGetCount_v2(unsigned* count) {
  *count = 2;
  return 0;
}
FAKE_NVML Return nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  *device = index == 0 ? static_cast<void*>(&state) : static_cast<void*>(&second_device);
  return 0;
}
FAKE_NVML Return nvmlDeviceGetName(Device device, char* name, unsigned length) {
  std::strncpy(name, IsFirst(device) ? "Fake H1" : "Fake MIG", length);
  return 0;
}
FAKE_NVML Return nvmlDeviceGetPciInfo_v3(Device device, PciInfo* pci) {
  std::strcpy(pci->bus_id.data(), IsFirst(device) ? "00000000:3B:00.0" : "00010000:AF:00.0");
  return 0;
}
FAKE_NVML Return nvmlDeviceGetUtilizationRates(Device device, Utilization* use) {
  if (state.lost) return smeltr::probe::nvml::kGpuIsLost;
  if (!IsFirst(device)) return kNotSupported;
  *use = {.gpu = 87, .memory = 12};
  return 0;
}
FAKE_NVML Return nvmlDeviceGetMemoryInfo_v2(Device, MemoryV2* memory) {
  if (memory->version != smeltr::probe::nvml::kMemoryV2) return kInsufficientSize;
  memory->total = 80'000;
  memory->reserved = 500;
  memory->used = 3'000;
  memory->free = 76'500;
  return 0;
}
FAKE_NVML Return nvmlDeviceGetPowerUsage(Device device, unsigned* value) {
  return Answer(device, 250'000, value);
}
FAKE_NVML Return nvmlDeviceGetTotalEnergyConsumption(Device device, unsigned long long* value) {
  if (!IsFirst(device)) return kNotSupported;
  *value = 123'456'789'012;
  return 0;
}
FAKE_NVML Return nvmlDeviceGetClockInfo(Device device, unsigned type, unsigned* value) {
  return Answer(device, type == smeltr::probe::nvml::kClockSm ? 1755 : 2619, value);
}
FAKE_NVML Return nvmlDeviceGetTemperature(Device device, unsigned, unsigned* value) {
  return Answer(device, state.temperature_c, value);
}
FAKE_NVML Return nvmlDeviceGetTemperatureThreshold(Device device, unsigned type, unsigned* value) {
  return Answer(device, type == smeltr::probe::nvml::kThresholdSlowdown ? 87 : 92, value);
}
FAKE_NVML Return nvmlDeviceGetCurrentClocksThrottleReasons(Device device, unsigned long long* value) {
  if (!IsFirst(device)) return kNotSupported;
  *value = state.reasons;
  return 0;
}
FAKE_NVML Return nvmlDeviceGetTotalEccErrors(Device device, unsigned, unsigned, unsigned long long* value) {
  if (!IsFirst(device)) return kNotSupported;
  *value = 2;
  return 0;
}
FAKE_NVML Return nvmlDeviceGetPcieReplayCounter(Device device, unsigned* value) {
  return Answer(device, 3, value);
}
FAKE_NVML Return nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, ProcessInfo* infos) {
  if (!IsFirst(device)) return kNotSupported;
  infos[0] = {.pid = state.pid, .used_bytes = 2'000, .gpu_instance = 0, .compute_instance = 0};
  infos[1] = {.pid = state.pid + 1, .used_bytes = UINT64_MAX, .gpu_instance = 0, .compute_instance = 0};
  // A hostile count must not be believed.
  *count = state.absurd_counts ? 4'000'000 : 2;
  return 0;
}
FAKE_NVML Return nvmlDeviceGetGraphicsRunningProcesses_v3(Device device, unsigned* count,
                                                          ProcessInfo* infos) {
  if (!IsFirst(device)) return kNotSupported;
  infos[0] = {.pid = state.pid, .used_bytes = 2'000, .gpu_instance = 0, .compute_instance = 0};
  *count = 1;
  return 0;
}
FAKE_NVML Return nvmlDeviceGetProcessUtilization(Device device, ProcessUtilization* samples, unsigned* count,
                                                 unsigned long long last_us) {
  if (!IsFirst(device)) return kNotSupported;
  state.last_seen_us = last_us;
  samples[0] = {.pid = state.pid, .time_us = 1'000, .sm = 40, .memory = 0, .encoder = 0, .decoder = 0};
  samples[1] = {.pid = state.pid, .time_us = 2'000, .sm = 60, .memory = 0, .encoder = 0, .decoder = 0};
  samples[2] = {.pid = 0, .time_us = 0, .sm = 0, .memory = 0, .encoder = 0, .decoder = 0};
  *count = 3;
  return 0;
}

#undef FAKE_NVML
}  // extern "C"
