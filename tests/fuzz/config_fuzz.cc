// Bytes as config.toml: settings within their limits or one line of error, never more. What ParseBytes
// makes of the same bytes is a size that its own text leads back to.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "util/config.h"
#include "util/format.h"

namespace {

void Require(bool condition) {
  if (!condition) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto loaded = smeltr::ParseConfig(text, "config.toml");
  if (loaded.has_value()) {
    const smeltr::Config& config = loaded->config;
    Require(config.retention.max_age_days <= 36'500 && config.retention.ambient_days <= 36'500);
    Require(config.flight_recorder.seconds <= 3600);
    Require(config.flight_recorder.max_memory_bytes >= 1 << 20);
    Require(config.record.footprint_period_ms >= 100);
    Require(loaded->warnings.size() <= 20);
  } else {
    Require(loaded.error().text().find('\n') == std::string_view::npos);
  }
  if (const auto bytes = smeltr::ParseBytes(text); bytes.has_value() && *bytes < uint64_t{1} << 50) {
    Require(smeltr::ParseBytes(std::to_string(*bytes)) == bytes);
  }
  return 0;
}
