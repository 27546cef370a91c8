#include "faces/doctor/check.h"

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

namespace smeltr::faces::doctor {

std::string_view Name(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kDegraded:
      return "degraded";
    case Verdict::kFailed:
      return "failed";
  }
  return "unknown";
}

std::vector<Check> CheckAll(const Context& context) {
  std::vector<Check> all;
  const auto add = [&all](std::vector<Check> some) { std::ranges::move(some, std::back_inserter(all)); };
  add(CheckHome(context));
  add(CheckGpu(context));
  // After the test recording, which leaves one running.
  add(CheckDaemon(context));
  add(CheckSystem());
  add(CheckProbes());
  return all;
}

bool CanRecord(const std::vector<Check>& checks) {
  return std::ranges::none_of(
      checks, [](const Check& check) { return check.vital && check.verdict == Verdict::kFailed; });
}

std::string ToJson(const std::vector<Check>& checks) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["can_record"] = CanRecord(checks);
  json["checks"] = Json::array();
  for (const Check& check : checks) {
    json["checks"].push_back({{"name", check.name},
                              {"verdict", Name(check.verdict)},
                              {"vital", check.vital},
                              {"detail", check.detail},
                              {"fix", check.fix.empty() ? Json() : Json(check.fix)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace smeltr::faces::doctor
