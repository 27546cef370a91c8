#include "util/config.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <span>

#include "util/file.h"
#include "util/format.h"
#include "util/toml.h"

namespace smeltr {
namespace {

constexpr size_t kMaxFileBytes = 64 << 10;
constexpr size_t kMaxWarnings = 20;
constexpr size_t kMaxErrors = 20;
constexpr uint64_t kMaxDays = 36'500;
constexpr uint64_t kMaxSizeBytes = uint64_t{1} << 50;

// Takes a value; returns what it should have been, or nothing when it is fine.
using Setter = std::function<std::string(const toml::node&)>;

struct Key {
  std::string_view name;
  Setter set;
};

struct Section {
  std::string_view name;
  std::vector<Key> keys;
};

Setter Integer(uint64_t& value, uint64_t lowest, uint64_t highest) {
  return [&value, lowest, highest](const toml::node& node) -> std::string {
    const std::optional<int64_t> given = node.value_exact<int64_t>();
    if (!given || *given < 0 || static_cast<uint64_t>(*given) < lowest ||
        static_cast<uint64_t>(*given) > highest) {
      return fmt::format("a whole number from {} to {}", lowest, highest);
    }
    value = static_cast<uint64_t>(*given);
    return {};
  };
}

enum class Zero : uint8_t { kIsASize, kMeansNoLimit };

Setter Size(uint64_t& value, uint64_t lowest, uint64_t highest, Zero zero = Zero::kIsASize) {
  return [&value, lowest, highest, zero](const toml::node& node) -> std::string {
    std::optional<uint64_t> given;
    if (const auto text = node.value_exact<std::string>()) given = ParseBytes(*text);
    if (const auto number = node.value_exact<int64_t>(); number && *number >= 0) {
      given = static_cast<uint64_t>(*number);
    }
    const bool no_limit = zero == Zero::kMeansNoLimit && given == uint64_t{0};
    if (!given || (*given < lowest && !no_limit) || *given > highest) {
      if (zero == Zero::kMeansNoLimit) {
        return fmt::format("a size of {} or more like \"10 GiB\", or 0 for no limit", FormatBytes(lowest));
      }
      const std::string range =
          lowest == 0 ? "" : fmt::format(" from {} to {}", FormatBytes(lowest), FormatBytes(highest));
      return fmt::format("a size{} like \"10 GiB\", or bytes", range);
    }
    value = *given;
    return {};
  };
}

Setter Names(const std::function<void(std::vector<std::string>)>& take) {
  return [take](const toml::node& node) -> std::string {
    constexpr std::string_view kExpected = "a list of names like [\"vm\", \"proc\"]";
    const toml::array* const array = node.as_array();
    if (array == nullptr) return std::string(kExpected);
    std::vector<std::string> names;
    for (const toml::node& one : *array) {
      const auto name = one.value_exact<std::string>();
      if (!name) return std::string(kExpected);
      names.push_back(*name);
    }
    take(std::move(names));
    return {};
  };
}

std::vector<Section> Sections(Config& config) {
  constexpr uint64_t kMiB = 1 << 20;
  RetentionSettings& retention = config.retention;
  RecordSettings& record = config.record;
  FlightRecorderSettings& recorder = config.flight_recorder;
  ProbeSettings& probes = config.probes;
  return {
      {"retention",
       {{"max_total", Size(retention.max_total_bytes, 0, kMaxSizeBytes)},
        {"max_age_days", Integer(retention.max_age_days, 0, kMaxDays)},
        {"ambient_days", Integer(retention.ambient_days, 0, kMaxDays)},
        {"post_mortems", Integer(retention.max_post_mortems, 0, 1'000'000)}}},
      {"record",
       {{"max_size", Size(record.max_size_bytes, kSmallestSessionBytes, kMaxSizeBytes, Zero::kMeansNoLimit)},
        {"footprint_period_ms", Integer(record.footprint_period_ms, 100, 3'600'000)}}},
      {"flight_recorder",
       {{"seconds", Integer(recorder.seconds, 0, 3600)},
        {"max_memory", Size(recorder.max_memory_bytes, kMiB, 4096 * kMiB)}}},
      {"daemon",
       {{"probes", Names([&probes](auto names) { probes.only = std::move(names); })},
        {"probes_off", Names([&probes](auto names) { probes.off = std::move(names); })}}},
  };
}

class Reading {
 public:
  explicit Reading(std::string_view file) : file_(file) {}

  void ReadAll(const toml::table& root, std::span<const Section> sections) {
    for (const auto& [name, node] : root) {
      const auto section = std::ranges::find(sections, name.str(), &Section::name);
      if (section == sections.end()) {
        Unknown(name);
        continue;
      }
      const toml::table* const table = node.as_table();
      if (table == nullptr) {
        Wrong(name, fmt::format("[{}] is a section, not a value", section->name));
      } else {
        ReadSection(*table, *section);
      }
    }
  }

  std::vector<std::string> TakeWarnings() { return std::move(warnings_); }
  const std::vector<std::string>& errors() const { return errors_; }

 private:
  void ReadSection(const toml::table& table, const Section& section) {
    for (const auto& [name, node] : table) {
      const auto key = std::ranges::find(section.keys, name.str(), &Key::name);
      if (key == section.keys.end()) {
        Unknown(name);
        continue;
      }
      const std::string expected = key->set(node);
      if (!expected.empty()) Wrong(name, fmt::format("{}.{} must be {}", section.name, key->name, expected));
    }
  }

  std::string At(const toml::key& key) const { return fmt::format("{}:{}", file_, key.source().begin.line); }
  void Unknown(const toml::key& key) {
    if (warnings_.size() >= kMaxWarnings) return;
    warnings_.push_back(
        fmt::format("{}: nothing reads '{}': misspelt?", At(key), Printable(Truncate(key.str(), 60))));
  }
  void Wrong(const toml::key& key, std::string_view text) {
    if (errors_.size() < kMaxErrors) errors_.push_back(fmt::format("{}: {}", At(key), text));
  }

  std::string_view file_;
  std::vector<std::string> warnings_;
  std::vector<std::string> errors_;
};

}  // namespace

bool ProbeSettings::Wanted(std::string_view probe) const {
  if (only && std::ranges::find(*only, probe) == only->end()) return false;
  return std::ranges::find(off, probe) == off.end();
}

Result<LoadedConfig> ParseConfig(std::string_view text, std::string_view file) {
  const toml::parse_result parsed = ParseToml(text, file);
  if (!parsed) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{}:{}: {}", file, parsed.error().source().begin.line,
                            Printable(Truncate(parsed.error().description(), 200))));
  }
  LoadedConfig loaded;
  Reading reading(file);
  reading.ReadAll(parsed.table(), Sections(loaded.config));
  if (!reading.errors().empty()) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{}", fmt::join(reading.errors(), "; ")));
  }
  loaded.warnings = reading.TakeWarnings();
  return loaded;
}

Result<LoadedConfig> LoadConfig(const std::filesystem::path& file) {
  const auto text = ReadFile(file, kMaxFileBytes);
  if (!text.has_value() && text.error().code() == ErrorCode::kNotFound) return LoadedConfig{};
  if (!text.has_value()) return std::unexpected(text.error());
  return ParseConfig(*text, file.native());
}

std::filesystem::path ConfigFile(const std::filesystem::path& home) { return home / "config.toml"; }

}  // namespace smeltr
