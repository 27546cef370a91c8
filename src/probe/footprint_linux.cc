#include <errno.h>

#include <array>
#include <utility>

#include "base/clock.h"
#include "probe/footprint.h"
#include "probe/proc_text.h"
#include "probe/sampled_file.h"

namespace smeltr::probe {
namespace {

// Readings of a process between two of its proportional set size, and when that took long.
constexpr uint64_t kPssEvery = 5;
constexpr uint64_t kSlowPssEvery = 250;
constexpr uint64_t kSlowPssNs = 20'000'000;

class ProcFootprintReader : public FootprintReader {
 public:
  explicit ProcFootprintReader(std::string proc_root) : proc_root_(std::move(proc_root)) {}

  Status Check() override {
    const auto text = ReadSmallFile(proc_root_ + "/self/status", buffer_);
    if (!text.has_value() || ParseStatus(*text).rss_bytes == 0) {
      return {Health::kFailed, "cannot read " + proc_root_ + "/self/status"};
    }
    if (!ReadSmallFile(proc_root_ + "/self/smaps_rollup", buffer_).has_value()) {
      return {Health::kDegraded, "no proportional sizes: the kernel has no smaps_rollup"};
    }
    return {};
  }

  Outcome Read(uint32_t pid, Progress& progress, event::ProcFootprint& sample) override {
    const std::string directory = proc_root_ + "/" + std::to_string(pid);
    const auto text = ReadSmallFile(directory + "/status", buffer_);
    if (!text.has_value()) return errno == ENOENT || errno == ESRCH ? Outcome::kGone : Outcome::kRefused;
    const StatusFigures status = ParseStatus(*text);
    sample.phys_footprint_bytes =
        status.rss_anon_bytes + status.rss_shmem_bytes + status.swap_bytes + status.page_table_bytes;
    if (sample.phys_footprint_bytes == 0) return Outcome::kGone;
    sample.lifetime_max_phys_footprint_bytes = status.peak_rss_bytes;
    sample.rss_bytes = status.rss_bytes;
    sample.swap_bytes = status.swap_bytes;
    sample.file_bytes = status.rss_file_bytes;
    sample.pss_bytes = Pss(directory, sample.phys_footprint_bytes, progress);
    if (const auto score = ReadSmallFile(directory + "/oom_score", buffer_)) {
      sample.oom_score = static_cast<uint32_t>(LeadingNumber(*score).value_or(0));
    }
    return Outcome::kRead;
  }

 private:
  uint64_t Pss(const std::string& directory, uint64_t bytes, Progress& progress) {
    const bool grown = progress.next_pss < progress.readings + kPssEvery &&
                       bytes > progress.bytes_at_pss + progress.bytes_at_pss / 10;
    if (progress.readings < progress.next_pss && !grown) return 0;
    const uint64_t begin_ns = MonotonicNowNs();
    const auto text = ReadSmallFile(directory + "/smaps_rollup", buffer_);
    const bool slow = MonotonicNowNs() - begin_ns > kSlowPssNs;
    progress.next_pss = progress.readings + (slow ? kSlowPssEvery : kPssEvery);
    progress.bytes_at_pss = bytes;
    return text.has_value() ? ParsePss(*text).value_or(0) : 0;
  }

  std::string proc_root_;
  std::array<char, 4096> buffer_{};
};

}  // namespace

std::unique_ptr<FootprintReader> MakeFootprintReader(const Roots& roots) {
  return std::make_unique<ProcFootprintReader>(roots.proc);
}

}  // namespace smeltr::probe
