// Every probe's own word. Declared in check.h.
#include <fmt/format.h>

#include <exception>
#include <future>
#include <memory>
#include <thread>
#include <utility>

#include "faces/doctor/check.h"
#include "probe/probe.h"
#include "util/format.h"

namespace smeltr::faces::doctor {
namespace {

constexpr auto kLimit = std::chrono::seconds(10);

probe::Status CheckContained(probe::Probe& probe) {
  try {
    return probe.Check();
  } catch (const std::exception& error) {
    return {probe::Health::kFailed, error.what()};
  }
}

// On a thread that is left behind when it hangs, as drivers of lost GPUs do.
probe::Status CheckInTime(std::unique_ptr<probe::Probe> probe) {
  std::promise<probe::Status> promise;
  std::future<probe::Status> answer = promise.get_future();
  std::thread([probe = std::move(probe), promise = std::move(promise)]() mutable {
    promise.set_value(CheckContained(*probe));
  }).detach();
  if (answer.wait_for(kLimit) == std::future_status::ready) return answer.get();
  return {probe::Health::kFailed, fmt::format("hangs: no reading within {} s", kLimit.count())};
}

}  // namespace

std::vector<Check> CheckProbes() {
  std::vector<Check> checks;
  for (std::unique_ptr<probe::Probe>& probe : probe::MakeAllProbes()) {
    Check check{.name = "probe " + std::string(probe->name())};
    const probe::Status status = CheckInTime(std::move(probe));
    check.detail = status.reason.empty() ? "reads" : Printable(status.reason);
    if (status.health == probe::Health::kAbsent) check.detail = "not available: " + check.detail;
    if (status.health == probe::Health::kDegraded) check.verdict = Verdict::kDegraded;
    if (status.health == probe::Health::kFailed) check.verdict = Verdict::kFailed;
    checks.push_back(std::move(check));
  }
  return checks;
}

}  // namespace smeltr::faces::doctor
