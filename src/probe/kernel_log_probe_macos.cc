#include <unistd.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "probe/apple_log_events.h"
#include "probe/kernel_log_probe.h"
#include "probe/line_child.h"

namespace smeltr::probe {
namespace {

constexpr const char* kLogProgram = "/usr/bin/log";
constexpr uint64_t kPeriodNs = 250'000'000;
constexpr size_t kMaxLines = 2'000;

constexpr const char* kPredicate =
    R"(subsystem == "com.apple.gpurestart" OR subsystem == "com.apple.GPUWrangler" OR )"
    R"(subsystem == "com.apple.coreanalytics" OR eventMessage CONTAINS "GPU watchdog")";

class KernelLogProbe : public Probe {
 public:
  std::string_view name() const override { return "kernel-log"; }
  uint64_t period_ns() const override { return kPeriodNs; }

  Status Sample(const Context& context, Sink& sink) override {
    if (!stream_.has_value()) {
      auto child = LineChild::Start({kLogProgram, "stream", "--style", "ndjson", "--predicate", kPredicate});
      if (!child.has_value()) return {Health::kFailed, std::string(child.error().text())};
      stream_.emplace(std::move(*child));
    }
    lines_.clear();
    const bool open = stream_->Read(kMaxLines, lines_);
    for (const std::string& line : lines_) events_.Add(line, context.now_ns, WallNowNs(), sink);
    if (open) return {};
    stream_.reset();
    return {Health::kFailed, "`log stream` has ended"};
  }

  Status Check() override {
    if (::access(kLogProgram, X_OK) == 0) return {};
    return {Health::kFailed, "/usr/bin/log, which shows the system's log, is not there"};
  }

 private:
  std::optional<LineChild> stream_;
  std::vector<std::string> lines_;
  AppleLogEvents events_;
};

}  // namespace

std::unique_ptr<Probe> MakeKernelLogProbe() { return std::make_unique<KernelLogProbe>(); }

}  // namespace smeltr::probe
