#include <errno.h>
#include <libproc.h>
#include <sys/resource.h>
#include <unistd.h>

#include "probe/footprint.h"

namespace smeltr::probe {
namespace {

bool ReadUsage(uint32_t pid, rusage_info_v4& usage) {
  return ::proc_pid_rusage(static_cast<int>(pid), RUSAGE_INFO_V4, reinterpret_cast<rusage_info_t*>(&usage)) ==
         0;
}

class RusageFootprintReader : public FootprintReader {
 public:
  Status Check() override {
    rusage_info_v4 usage{};
    if (ReadUsage(static_cast<uint32_t>(::getpid()), usage)) return {};
    return {Health::kFailed, "the kernel does not tell even our own footprint"};
  }

  Outcome Read(uint32_t pid, Progress& /*progress*/, event::ProcFootprint& sample) override {
    rusage_info_v4 usage{};
    if (!ReadUsage(pid, usage)) return errno == ESRCH ? Outcome::kGone : Outcome::kRefused;
    if (usage.ri_phys_footprint == 0) return Outcome::kGone;
    sample.phys_footprint_bytes = usage.ri_phys_footprint;
    sample.lifetime_max_phys_footprint_bytes = usage.ri_lifetime_max_phys_footprint;
    sample.rss_bytes = usage.ri_resident_size;
    return Outcome::kRead;
  }
};

}  // namespace

std::unique_ptr<FootprintReader> MakeFootprintReader(const Roots& /*roots*/) {
  return std::make_unique<RusageFootprintReader>();
}

}  // namespace smeltr::probe
