// Bytes as the texts of /proc and of DRM's fdinfo: figures or nothing, never more. A process chooses its
// name, and a driver writes what it likes.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "probe/fdinfo.h"
#include "probe/proc_text.h"

namespace {

using namespace smeltr;

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  probe::ProcessEntry process;
  if (probe::ParseStat(text, process)) Require(process.name.size() < size);
  probe::ParseMeminfo(text);
  probe::ParseVmstat(text);
  probe::ParseStatus(text);
  probe::ParsePss(text);
  probe::ParseZramUsed(text);
  probe::FlatKeyed(text, "oom_kill");
  if (const auto pressure = probe::ParsePressure(text)) Require(std::isfinite(pressure->some.avg10_pct));
  if (const auto times = probe::ParseCpuLine(text))
    Require(times->busy_ticks <= times->all_ticks || size > 60);
  if (const auto client = probe::ParseFdinfo(text)) {
    Require(client->engines.size() <= 64);
    const auto half = probe::ParseFdinfo(text.substr(0, size / 2));
    if (half.has_value()) Require(std::isfinite(probe::BusyPercent(*half, *client, 1'000'000'000)));
  }
  return 0;
}
