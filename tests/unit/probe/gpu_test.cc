#include "probe/gpu.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cmath>

#include "base/clock.h"
#include "fake/event_list.h"
#include "fake/fake_process.h"
#include "fake/nvml.h"
#include "fake/scratch.h"
#include "probe/fdinfo.h"

namespace smeltr::probe {
namespace {

class GpuTest : public fake::ScratchTest {
 protected:
  GpuTest() {
    Write(tree_, {.pid = 10, .start_time_ticks = 1000});
    Write(tree_, {.pid = 11, .parent_pid = 10, .start_time_ticks = 1001});
  }
  void Make(const std::string& nvml) {
    std::vector<std::unique_ptr<GpuBackend>> backends;
    backends.push_back(MakeNvmlBackend(nvml));
    backends.push_back(MakeDrmBackend(tree_.roots()));
    probe_ = MakeGpuProbe(std::move(backends), std::make_shared<RecordedTrees>(tree_.At("proc")), ledger_);
  }
  Status Sample(uint64_t seconds) {
    context_.now_ns = seconds * kNsPerSecond;
    events_.Clear();
    return probe_->Sample(context_, events_);
  }
  void Record() {
    context_.recordings = {{.session_id = "s",
                            .token = "",
                            .root_pid = 10,
                            .root_start_time_ticks = 1000,
                            .footprint_period_ns = 0}};
  }

  fake::FileTree tree_{scratch()};
  std::shared_ptr<GpuLedger> ledger_ = std::make_shared<GpuLedger>();
  std::unique_ptr<Probe> probe_;
  Context context_;
  fake::EventList events_;
};

TEST_F(GpuTest, NoDriverNoEvents) {
  Make("libsmeltr-no-such-library.so");
  const Status status = Sample(10);
  EXPECT_EQ(status.health, Health::kAbsent);
  EXPECT_EQ(status.reason, "no GPU driver with counters here");
  EXPECT_EQ(events_.size(), 0U);
}

class NvmlTest : public GpuTest {
 protected:
  NvmlTest() {
    void* library = ::dlopen(SMELTR_FAKE_NVML, RTLD_NOW);
    auto* find = reinterpret_cast<fake::NvmlState* (*)()>(::dlsym(library, "FakeNvmlState"));
    state_ = find();
    *state_ = {};
    Make(SMELTR_FAKE_NVML);
  }
  fake::NvmlState* state_ = nullptr;
};

TEST_F(NvmlTest, EveryFieldOfADevice) {
  state_->reasons = 0x1 | 0x2 | 0x4 | 0x100;
  EXPECT_EQ(Sample(10).health, Health::kOk);
  const auto all = events_.All<event::GpuDeviceSample>();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].device_index, 0U);
  EXPECT_EQ(all[0].device_name.view, "Fake H1");
  EXPECT_EQ(all[0].pci_address.view, "0000:3b:00.0");
  EXPECT_DOUBLE_EQ(all[0].utilisation_pct, 87);
  EXPECT_DOUBLE_EQ(all[0].memory_utilisation_pct, 12);
  EXPECT_EQ(all[0].used_bytes, 3'000U);
  EXPECT_EQ(all[0].total_bytes, 80'000U);
  EXPECT_EQ(all[0].power_mw, 250'000U);
  EXPECT_EQ(all[0].energy_mj, 123'456'789'012U);
  EXPECT_EQ(all[0].clock_mhz, 1755U);
  EXPECT_EQ(all[0].memory_clock_mhz, 2619U);
  EXPECT_DOUBLE_EQ(all[0].temperature_c, 61);
  // Idle, application and display clocks are no faults.
  EXPECT_EQ(all[0].throttle_reasons.view, "sw_power_cap");
  EXPECT_EQ(all[0].ecc_error_count, 2U);
  EXPECT_EQ(all[0].pcie_replay_count, 3U);
}

TEST_F(NvmlTest, WhatADeviceDoesNotTellIsUnknown) {
  Sample(10);
  const auto all = events_.All<event::GpuDeviceSample>();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[1].device_index, 1U);
  EXPECT_EQ(all[1].pci_address.view, "00010000:af:00.0");
  EXPECT_TRUE(std::isnan(all[1].utilisation_pct));
  EXPECT_EQ(all[1].power_mw, 0U);
  EXPECT_EQ(all[1].used_bytes, 3'000U);
}

TEST_F(NvmlTest, RecordedProcessesOnly) {
  Sample(10);
  EXPECT_TRUE(events_.All<event::GpuProcessSample>().empty());
  Record();
  Sample(11);
  const auto all = events_.All<event::GpuProcessSample>();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].target_pid, 10U);
  EXPECT_EQ(all[0].used_bytes, 2'000U);
  EXPECT_DOUBLE_EQ(all[0].busy_pct, 50);
  EXPECT_EQ(all[1].target_pid, 11U);
  EXPECT_EQ(all[1].used_bytes, 0U);
  ASSERT_TRUE(ledger_->FindUse(context_.now_ns, 10).has_value());
  EXPECT_EQ(ledger_->FindUse(context_.now_ns, 10).value_or(GpuLedger::Use{}).used_bytes, 2'000U);
  Sample(12);
  EXPECT_EQ(state_->last_seen_us, 2'000U);
}

TEST_F(NvmlTest, AbsurdCountsAreNotBelieved) {
  state_->absurd_counts = true;
  Record();
  EXPECT_EQ(Sample(10).health, Health::kOk);
}

TEST_F(NvmlTest, HeatAndThrottlingReachTheLedger) {
  Record();
  Sample(10);
  EXPECT_EQ(
      ledger_->FindHeat(context_.now_ns)
          .value_or(GpuLedger::Heat{.level = -1, .temperature_c = 0, .sensor = {}, .throttle_reasons = {}})
          .level,
      0);
  state_->temperature_c = 83;
  Sample(11);
  EXPECT_EQ(ledger_->FindHeat(context_.now_ns)->level, 1);
  state_->temperature_c = 60;
  state_->reasons = 0x40;
  Sample(12);
  EXPECT_EQ(ledger_->FindHeat(context_.now_ns)->level, 2);
  EXPECT_EQ(ledger_->FindHeat(context_.now_ns)->throttle_reasons, "hw_thermal");
}

TEST_F(NvmlTest, ALostGpuIsToldAndLookedForAgain) {
  Record();
  Sample(10);
  state_->lost = true;
  const Status lost = Sample(11);
  EXPECT_EQ(lost.health, Health::kDegraded);
  EXPECT_EQ(lost.reason, "a GPU no longer answers");
  state_->init_result = 9;
  EXPECT_EQ(Sample(12).reason, "NVIDIA's library is here but not its driver: as the test wants it");
  state_->lost = false;
  state_->init_result = 0;
  EXPECT_EQ(Sample(13).health, Health::kOk);
  EXPECT_EQ(events_.All<event::GpuDeviceSample>().size(), 2U);
}

TEST_F(NvmlTest, AtRestItIsAskedSeldomAndLetGoInBetween) {
  EXPECT_EQ(Sample(10).health, Health::kOk);
  EXPECT_EQ(events_.size(), 2U);
  EXPECT_EQ(state_->init_count, 1U);
  EXPECT_EQ(state_->shutdown_count, 1U);
  EXPECT_EQ(Sample(39).health, Health::kOk);
  EXPECT_EQ(events_.size(), 0U);
  EXPECT_EQ(state_->init_count, 1U);
  EXPECT_EQ(Sample(40).health, Health::kOk);
  EXPECT_EQ(events_.size(), 2U);
  EXPECT_EQ(state_->init_count, 2U);
  Record();
  for (uint64_t second = 41; second < 45; ++second) {
    EXPECT_EQ(Sample(second).health, Health::kOk);
    EXPECT_EQ(events_.All<event::GpuDeviceSample>().size(), 2U) << second;
  }
  EXPECT_EQ(state_->init_count, 3U);
  EXPECT_EQ(state_->shutdown_count, 2U);
}

TEST_F(GpuTest, Amd) {
  Record();
  const std::string at = "sys/class/drm/card1/device/";
  tree_.Link(at + "driver", "/sys/bus/pci/drivers/amdgpu");
  tree_.Write(at + "uevent", "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:0a:00.0\n");
  tree_.Write(at + "device", "0x744c\n");
  tree_.Write(at + "gpu_busy_percent", "42\n");
  tree_.Write(at + "mem_info_vram_used", "1000\n");
  tree_.Write(at + "mem_info_vram_total", "9000\n");
  tree_.Write(at + "hwmon/hwmon4/power1_average", "150000000\n");
  tree_.Write(at + "hwmon/hwmon4/freq1_input", "2400000000\n");
  tree_.Write(at + "hwmon/hwmon4/freq2_input", "1200000000\n");
  tree_.Write(at + "hwmon/hwmon4/temp1_input", "96000\n");
  tree_.Write(at + "hwmon/hwmon4/temp1_crit", "100000\n");
  tree_.Write("sys/class/drm/card1-DP-1/status", "connected\n");
  tree_.Link("sys/class/drm/card0/device/driver", "/sys/bus/pci/drivers/virtio-pci");
  Make("libsmeltr-no-such-library.so");
  EXPECT_EQ(Sample(10).health, Health::kOk);
  const auto all = events_.All<event::GpuDeviceSample>();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].device_name.view, "amdgpu 0x744c");
  EXPECT_EQ(all[0].pci_address.view, "0000:0a:00.0");
  EXPECT_DOUBLE_EQ(all[0].utilisation_pct, 42);
  EXPECT_EQ(all[0].used_bytes, 1000U);
  EXPECT_EQ(all[0].total_bytes, 9000U);
  EXPECT_EQ(all[0].power_mw, 150'000U);
  EXPECT_EQ(all[0].clock_mhz, 2400U);
  EXPECT_EQ(all[0].memory_clock_mhz, 1200U);
  EXPECT_DOUBLE_EQ(all[0].temperature_c, 96);
  EXPECT_EQ(ledger_->FindHeat(context_.now_ns)->level, 1);
  tree_.Remove("sys/class/drm/card1/device");
  EXPECT_EQ(Sample(11).reason, "a GPU no longer answers");
}

TEST_F(GpuTest, IntelIsBusyWhenItDoesNotSleep) {
  Record();
  const std::string at = "sys/class/drm/card0/";
  tree_.Link(at + "device/driver", "/sys/bus/pci/drivers/xe");
  tree_.Write(at + "device/uevent", "PCI_SLOT_NAME=0000:03:00.0\n");
  tree_.Write(at + "device/tile0/gt0/gtidle/idle_residency_ms", "5000\n");
  tree_.Write(at + "device/tile0/gt0/freq0/act_freq", "1850\n");
  tree_.Write(at + "device/tile0/gt0/freq0/throttle/status", "1\n");
  tree_.Write(at + "device/tile0/gt0/freq0/throttle/reason_thermal", "1\n");
  tree_.Write(at + "device/tile0/gt0/freq0/throttle/reason_pl1", "0\n");
  tree_.Write(at + "device/hwmon/hwmon1/energy1_input", "1000000\n");
  Make("libsmeltr-no-such-library.so");
  Sample(10);
  EXPECT_TRUE(std::isnan(events_.Last<event::GpuDeviceSample>().utilisation_pct));
  tree_.Write(at + "device/tile0/gt0/gtidle/idle_residency_ms", "5500\n");
  tree_.Write(at + "device/hwmon/hwmon1/energy1_input", "31000000\n");
  Sample(12);
  const auto told = events_.Last<event::GpuDeviceSample>();
  EXPECT_DOUBLE_EQ(told.utilisation_pct, 75);
  EXPECT_EQ(told.clock_mhz, 1850U);
  EXPECT_EQ(told.energy_mj, 31'000U);
  EXPECT_EQ(told.power_mw, 15'000U);
  EXPECT_EQ(told.throttle_reasons.view, "thermal");
}

TEST_F(GpuTest, DrmClientsAreCountedOnce) {
  tree_.Link("sys/class/drm/card0/device/driver", "/sys/bus/pci/drivers/amdgpu");
  tree_.Write("sys/class/drm/card0/device/uevent", "PCI_SLOT_NAME=0000:0a:00.0\n");
  const auto write = [this](uint32_t pid, const std::string& fd, int client, uint64_t busy_ns) {
    const std::string at = "proc/" + std::to_string(pid) + "/";
    tree_.Link(at + "fd/" + fd, "/dev/dri/renderD128");
    tree_.Write(at + "fdinfo/" + fd,
                "pos:\t0\ndrm-driver:\tamdgpu\ndrm-pdev:\t0000:0a:00.0\ndrm-client-id:\t" +
                    std::to_string(client) + "\ndrm-engine-gfx:\t" + std::to_string(busy_ns) +
                    " ns\ndrm-memory-vram:\t100 KiB\ndrm-memory-gtt:\t7 KiB\n");
  };
  tree_.Link("proc/10/fd/0", "/dev/null");
  tree_.Write("proc/10/fdinfo/0", "pos: 0\n");
  write(10, "5", 1, 0);
  write(10, "6", 1, 0);  // The same client, by another descriptor.
  write(10, "7", 2, 0);
  write(11, "5", 1, 0);  // And inherited.
  Make("libsmeltr-no-such-library.so");
  Record();
  Sample(10);
  auto all = events_.All<event::GpuProcessSample>();
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].target_pid, 10U);
  EXPECT_EQ(all[0].used_bytes, 200U * 1024);
  write(10, "5", 1, kNsPerSecond / 2);
  write(10, "6", 1, kNsPerSecond / 2);
  write(10, "7", 2, kNsPerSecond / 4);
  Sample(11);
  EXPECT_DOUBLE_EQ(events_.Last<event::GpuProcessSample>().busy_pct, 75);
}

TEST(Fdinfo, TakesWhatDriversWrite) {
  const auto client = ParseFdinfo(
      "pos:\t0\ndrm-driver:\txe\ndrm-client-id:\t42\ndrm-pdev:\t0000:03:00.0\n"
      "drm-total-system:\t0\ndrm-resident-system:\t9 MiB\ndrm-total-vram0:\t50 MiB\ndrm-resident-vram0:\t40 "
      "MiB\n"
      "drm-cycles-rcs:\t100\ndrm-total-cycles-rcs:\t1000\ndrm-engine-capacity-ccs:\t4\ndrm-cycles-ccs:\t8\n"
      "drm-total-cycles-ccs:\t10\n");
  ASSERT_TRUE(client.has_value());
  EXPECT_EQ(client->pci_address, "0000:03:00.0");
  EXPECT_EQ(client->client_id, 42U);
  EXPECT_EQ(client->used_bytes, 40U << 20);
  ASSERT_EQ(client->engines.size(), 2U);
  DrmClient later = *client;
  later.engines[0].cycles += 300;
  later.engines[0].total_cycles += 1000;
  later.engines[1].cycles += 800;
  later.engines[1].total_cycles += 1000;
  EXPECT_DOUBLE_EQ(BusyPercent(*client, later, 1), 30);
  EXPECT_DOUBLE_EQ(BusyPercent(later, *client, 1), 0);
}

TEST(Fdinfo, RefusesOthers) {
  EXPECT_FALSE(ParseFdinfo("pos:\t0\nflags:\t02\n").has_value());
  EXPECT_FALSE(ParseFdinfo("drm-driver:\tamdgpu\n").has_value());
  EXPECT_FALSE(ParseFdinfo("drm-client-id:\t1\n").has_value());
  std::string many = "drm-driver:\tx\ndrm-client-id:\t1\n";
  for (int i = 0; i < 10000; ++i) many += "drm-engine-e" + std::to_string(i) + ":\t1 ns\n";
  EXPECT_LE(ParseFdinfo(many)->engines.size(), 64U);
  EXPECT_EQ(
      ParseFdinfo("drm-driver:\tx\ndrm-client-id:\t1\ndrm-memory-a:\t18446744073709551615 KiB\n")->used_bytes,
      0U);
}

}  // namespace
}  // namespace smeltr::probe
