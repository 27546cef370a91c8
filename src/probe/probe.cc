#include "probe/probe.h"

#include "base/clock.h"

namespace smeltr::probe {
namespace {

struct NullSink : Sink {
  void Emit(const event::Event&) override {}
  void EmitTo(std::string_view, const event::Event&) override {}
};

}  // namespace

std::string_view Name(Health health) {
  switch (health) {
    case Health::kStarting:
      return "starting";
    case Health::kOk:
      return "ok";
    case Health::kDegraded:
      return "degraded";
    case Health::kAbsent:
      return "absent";
    case Health::kFailed:
      return "failed";
  }
  return "unknown";
}

Status Probe::Check() {
  NullSink sink;
  return Sample({.now_ns = MonotonicNowNs(), .recordings = {}}, sink);
}

}  // namespace smeltr::probe
