#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <vector>

#include "base/clock.h"
#include "probe/directory.h"
#include "probe/emit.h"
#include "probe/proc_text.h"
#include "probe/sampled_file.h"
#include "probe/vm.h"

namespace smeltr::probe {
namespace {

constexpr uint64_t kRescanNs = 60 * kNsPerSecond;
// Unchanged stall figures are told that often.
constexpr uint64_t kQuietPressureNs = 10 * kNsPerSecond;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct Resource {
  std::string_view name;
  SampledFile file;
  uint64_t told_ns = 0;
  uint64_t told_total_us = 0;
};

class VmProbe : public Probe {
 public:
  explicit VmProbe(const Roots& roots)
      : block_directory_(roots.sys + "/block"),
        meminfo_(roots.proc + "/meminfo"),
        vmstat_(roots.proc + "/vmstat"),
        stat_(roots.proc + "/stat"),
        resources_{Resource{.name = "memory", .file = SampledFile(roots.proc + "/pressure/memory")},
                   Resource{.name = "io", .file = SampledFile(roots.proc + "/pressure/io")},
                   Resource{.name = "cpu", .file = SampledFile(roots.proc + "/pressure/cpu")}} {}

  std::string_view name() const override { return "vm"; }
  uint64_t period_ns() const override { return kNsPerSecond; }

  Status Sample(const Context& context, Sink& sink) override {
    const auto meminfo = meminfo_.Read(buffer_);
    if (!meminfo.has_value()) return {Health::kFailed, "cannot read " + meminfo_.path()};
    const MeminfoFigures memory = ParseMeminfo(*meminfo);
    event::VmSample sample;
    sample.wired_bytes = memory.unevictable_bytes + memory.slab_unreclaimable_bytes +
                         memory.kernel_stack_bytes + memory.page_tables_bytes;
    sample.active_bytes = memory.active_bytes;
    sample.compressed_bytes = memory.zswap_bytes + ZramUsed(context.now_ns);
    sample.swap_used_bytes =
        memory.swap_total_bytes - std::min(memory.swap_free_bytes, memory.swap_total_bytes);
    sample.total_bytes = memory.total_bytes;
    sample.available_bytes = memory.available_bytes;
    const bool have_vmstat = FillRates(context.now_ns, sample);
    sample.cpu_busy_pct = CpuBusy();
    const size_t pressures = SamplePressure(context.now_ns, sink);
    sample.pressure =
        PressureLevel(memory.available_bytes, memory.total_bytes, memory_some_pct_, memory_full_pct_);
    before_ns_ = context.now_ns;
    sink.Emit(MakeEvent(context.now_ns, 0, sample));
    if (!have_vmstat) return {Health::kDegraded, "no rates of paging: cannot read " + vmstat_.path()};
    if (pressures == 0) {
      return {Health::kDegraded, "no stall figures: the kernel's PSI is off (start it with psi=1)"};
    }
    return {};
  }

 private:
  // Rates since the reading before; the first reading has none.
  bool FillRates(uint64_t now_ns, event::VmSample& sample) {
    sample.page_outs_per_sec = kUnknown;
    const auto text = vmstat_.Read(buffer_);
    if (!text.has_value()) {
      vmstat_before_.reset();
      return false;
    }
    const VmstatFigures now = ParseVmstat(*text);
    sample.oom_kill_count = now.oom_kills;
    if (vmstat_before_.has_value()) {
      const uint64_t elapsed_ns = now_ns - before_ns_;
      sample.page_outs_per_sec = PerSecond(vmstat_before_->swap_outs, now.swap_outs, elapsed_ns);
      sample.page_ins_per_sec = PerSecond(vmstat_before_->swap_ins, now.swap_ins, elapsed_ns);
      sample.major_faults_per_sec = PerSecond(vmstat_before_->major_faults, now.major_faults, elapsed_ns);
    }
    vmstat_before_ = now;
    return true;
  }

  double CpuBusy() {
    const auto text = stat_.Read(std::span(buffer_).first(256));
    const auto now = text.has_value() ? ParseCpuLine(*text) : std::nullopt;
    double busy_pct = 0;
    if (now.has_value() && cpu_before_.has_value() && now->all_ticks > cpu_before_->all_ticks &&
        now->busy_ticks >= cpu_before_->busy_ticks) {
      busy_pct = 100.0 * static_cast<double>(now->busy_ticks - cpu_before_->busy_ticks) /
                 static_cast<double>(now->all_ticks - cpu_before_->all_ticks);
    }
    cpu_before_ = now;
    return busy_pct;
  }

  size_t SamplePressure(uint64_t now_ns, Sink& sink) {
    size_t found = 0;
    memory_some_pct_ = 0;
    memory_full_pct_ = 0;
    for (Resource& resource : resources_) {
      const auto text = resource.file.Read(std::span(buffer_).first(512));
      const auto figures = text.has_value() ? ParsePressure(*text) : std::nullopt;
      if (!figures.has_value()) continue;
      ++found;
      if (resource.name == "memory") {
        memory_some_pct_ = figures->some.avg10_pct;
        memory_full_pct_ = figures->full.avg10_pct;
      }
      if (figures->some.total_us == resource.told_total_us && now_ns - resource.told_ns < kQuietPressureNs) {
        continue;
      }
      resource.told_total_us = figures->some.total_us;
      resource.told_ns = now_ns;
      sink.Emit(MakeEvent(now_ns, 0,
                          event::PressureSample{.resource = resource.name,
                                                .some_pct = figures->some.avg10_pct,
                                                .full_pct = figures->full.avg10_pct,
                                                .some_avg60_pct = figures->some.avg60_pct,
                                                .full_avg60_pct = figures->full.avg60_pct,
                                                .some_total_us = figures->some.total_us,
                                                .full_total_us = figures->full.total_us}));
    }
    return found;
  }

  // Swap that is memory again: what it takes there. Devices come and go rarely.
  uint64_t ZramUsed(uint64_t now_ns) {
    if (scanned_ns_ == 0 || now_ns - scanned_ns_ >= kRescanNs) {
      scanned_ns_ = now_ns;
      zram_.clear();
      for (const std::string& name : ListNames(block_directory_, "zram")) {
        zram_.emplace_back(block_directory_ + "/" + name + "/mm_stat");
      }
    }
    uint64_t used = 0;
    for (SampledFile& device : zram_) {
      const auto text = device.Read(std::span(buffer_).first(512));
      if (text.has_value()) used += ParseZramUsed(*text).value_or(0);
    }
    return used;
  }

  std::string block_directory_;
  SampledFile meminfo_;
  SampledFile vmstat_;
  SampledFile stat_;
  std::array<Resource, 3> resources_;
  std::vector<SampledFile> zram_;
  uint64_t scanned_ns_ = 0;
  uint64_t before_ns_ = 0;
  std::optional<VmstatFigures> vmstat_before_;
  std::optional<CpuFigures> cpu_before_;
  double memory_some_pct_ = 0;
  double memory_full_pct_ = 0;
  std::array<char, 8192> buffer_{};
};

}  // namespace

std::unique_ptr<Probe> MakeVmProbe(const Roots& roots) { return std::make_unique<VmProbe>(roots); }

}  // namespace smeltr::probe
