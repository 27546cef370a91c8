#include <mach/mach.h>
#include <sys/sysctl.h>
#include <unistd.h>

#include <limits>
#include <optional>

#include "base/clock.h"
#include "probe/emit.h"
#include "probe/vm.h"

namespace smeltr::probe {
namespace {

constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

template <typename T>
std::optional<T> Sysctl(const char* name) {
  T value{};
  size_t size = sizeof(value);
  if (::sysctlbyname(name, &value, &size, nullptr, 0) != 0) return std::nullopt;
  return value;
}

std::string_view LevelName(int level) {
  if (level >= 4) return "critical";
  return level >= 2 ? "warning" : "normal";
}

class VmProbe : public Probe {
 public:
  std::string_view name() const override { return "vm"; }
  uint64_t period_ns() const override { return kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    vm_statistics64 now{};
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    if (::host_statistics64(host_, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&now), &count) !=
        KERN_SUCCESS) {
      return {Health::kFailed, "the kernel does not tell its memory statistics"};
    }
    const auto page_bytes = static_cast<uint64_t>(::vm_kernel_page_size);
    event::VmSample sample;
    sample.wired_bytes = now.wire_count * page_bytes;
    sample.active_bytes = now.active_count * page_bytes;
    sample.compressed_bytes = now.compressor_page_count * page_bytes;
    sample.total_bytes = Sysctl<uint64_t>("hw.memsize").value_or(0);
    sample.available_bytes =
        (uint64_t{now.free_count} + now.purgeable_count + now.external_page_count) * page_bytes;
    sample.page_outs_per_sec = kUnknown;
    if (before_.has_value()) {
      const uint64_t elapsed_ns = context.now_ns - before_ns_;
      sample.page_outs_per_sec = PerSecond(before_->swapouts, now.swapouts, elapsed_ns);
      sample.page_ins_per_sec = PerSecond(before_->swapins, now.swapins, elapsed_ns);
      sample.major_faults_per_sec = PerSecond(before_->pageins, now.pageins, elapsed_ns);
    }
    before_ = now;
    before_ns_ = context.now_ns;
    sample.cpu_busy_pct = CpuBusy();
    const auto swap = Sysctl<xsw_usage>("vm.swapusage");
    if (swap.has_value()) sample.swap_used_bytes = swap->xsu_used;
    const auto level = Sysctl<int>("kern.memorystatus_vm_pressure_level");
    if (level.has_value()) sample.pressure = LevelName(*level);
    sink.Emit(MakeEvent(context.now_ns, 0, sample));
    if (!swap.has_value() || !level.has_value()) {
      return {Health::kDegraded, "the kernel does not tell its use of swap or its memory pressure"};
    }
    return {};
  }

 private:
  double CpuBusy() {
    host_cpu_load_info now{};
    mach_msg_type_number_t count = HOST_CPU_LOAD_INFO_COUNT;
    if (::host_statistics(host_, HOST_CPU_LOAD_INFO, reinterpret_cast<host_info_t>(&now), &count) !=
        KERN_SUCCESS) {
      return 0;
    }
    uint32_t all = 0;
    for (int state = 0; state < CPU_STATE_MAX; ++state)
      all += now.cpu_ticks[state] - cpu_before_.cpu_ticks[state];
    const uint32_t idle = now.cpu_ticks[CPU_STATE_IDLE] - cpu_before_.cpu_ticks[CPU_STATE_IDLE];
    const bool first = !cpu_known_;
    cpu_before_ = now;
    cpu_known_ = true;
    return first || all == 0 || idle > all ? 0 : 100.0 * (all - idle) / all;
  }

  // One right for the life of the process: each call of mach_host_self() would add another.
  mach_port_t host_ = ::mach_host_self();
  std::optional<vm_statistics64> before_;
  uint64_t before_ns_ = 0;
  host_cpu_load_info cpu_before_{};
  bool cpu_known_ = false;
};

}  // namespace

std::unique_ptr<Probe> MakeVmProbe(const Roots& /*roots*/) { return std::make_unique<VmProbe>(); }

}  // namespace smeltr::probe
