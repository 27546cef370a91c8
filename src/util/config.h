// $SMELTR_HOME/config.toml: what a user may set once for all recordings. Every key may be missing.
//
//   [retention]        # 0: no limit
//   max_total = "10 GiB"
//   max_age_days = 30
//   ambient_days = 7
//   post_mortems = 30
//   [record]
//   max_size = "0"             # of one session, events of its middle go first; 0: no limit
//   footprint_period_ms = 2000
//   [flight_recorder]
//   seconds = 60               # 0: off
//   max_memory = "64 MiB"
//   [daemon]
//   probes = ["vm", "proc"]    # only these; or
//   probes_off = ["kernel-log"]  # all but these
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smeltr {

// Which sessions are deleted by themselves (session/retention.h). 0: no limit.
struct RetentionSettings {
  uint64_t max_total_bytes = uint64_t{10} << 30;
  uint64_t max_age_days = 30;
  uint64_t ambient_days = 7;
  uint64_t max_post_mortems = 30;
};

// A few chunks: what is dropped of a session at a time is whole files.
inline constexpr uint64_t kSmallestSessionBytes = uint64_t{1} << 20;

struct RecordSettings {
  uint64_t max_size_bytes = 0;          // 0: no limit; else at least kSmallestSessionBytes.
  uint64_t footprint_period_ms = 2000;  // 100 to an hour.
};

struct FlightRecorderSettings {
  uint64_t seconds = 60;                           // 0: off; at most 3600.
  uint64_t max_memory_bytes = uint64_t{64} << 20;  // 1 MiB to 4 GiB.
};

struct ProbeSettings {
  std::optional<std::vector<std::string>> only;
  std::vector<std::string> off;

  bool Wanted(std::string_view probe) const;
};

struct Config {
  RetentionSettings retention;
  RecordSettings record;
  FlightRecorderSettings flight_recorder;
  ProbeSettings probes;
};

struct LoadedConfig {
  Config config;
  std::vector<std::string> warnings;  // Keys that nothing reads, each with its file and line.
};

// Values of the wrong type or out of range are an error that names each with its file and line; then nothing
// of the file counts: use a default Config.
Result<LoadedConfig> ParseConfig(std::string_view text, std::string_view file);
// A missing file is an empty one.
Result<LoadedConfig> LoadConfig(const std::filesystem::path& file);

// home/config.toml
std::filesystem::path ConfigFile(const std::filesystem::path& home);

}  // namespace smeltr
