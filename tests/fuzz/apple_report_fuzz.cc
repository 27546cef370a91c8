// A file that claims to be an .ips report, or a line of the system's log.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "crash/apple_log.h"
#include "crash/apple_report.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace smeltr::crash;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto report = ParseAppleReport(text)) {
    const auto* crash = std::get_if<AppleCrash>(&report->body);
    if (crash != nullptr && crash->frames.size() > 10) std::abort();
  }
  [[maybe_unused]] const auto line = ParseAppleLogLine(text);
  ParseAppleTime(text);
  return 0;
}
