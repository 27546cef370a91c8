#include "crash/kernel_record.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>

#include "crash/scan.h"

namespace smeltr::crash {
namespace {

using Json = nlohmann::json;

constexpr uint32_t kPriorityMask = 7;
constexpr uint32_t kFacilityShift = 3;
constexpr uint64_t kTakenOverUs = 60'000'000;

void SetPriority(uint32_t syslog_value, KernelRecord& record) {
  record.priority = syslog_value & kPriorityMask;
  record.facility = syslog_value >> kFacilityShift;
}

// The kernel writes control characters, bytes over 126 and the backslash as \xNN.
std::string Unescape(std::string_view text) {
  std::string plain;
  plain.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\\' && i + 3 < text.size() && text[i + 1] == 'x') {
      if (const auto byte = WholeNumber<uint8_t>(text.substr(i + 2, 2), 16)) {
        plain += static_cast<char>(*byte);
        i += 3;
        continue;
      }
    }
    plain += text[i];
  }
  return plain;
}

// Journal fields are text, or a list of byte values when they are not UTF-8, or null when too long.
std::string JournalText(const Json& entry, const char* key) {
  const auto field = entry.find(key);
  if (field == entry.end()) return {};
  if (field->is_string()) return field->get<std::string>();
  std::string text;
  if (!field->is_array()) return text;
  for (const Json& byte : *field) {
    if (byte.is_number_unsigned()) text += static_cast<char>(byte.get<uint64_t>() & 0xFF);
  }
  return text;
}

// "  12.345678" -> us.
std::optional<uint64_t> SecondsToMicroseconds(std::string_view text) {
  const std::string_view whole = Before(text, ".");
  std::string_view fraction = After(text, ".");
  const auto seconds = WholeNumber<uint64_t>(whole);
  if (!seconds.has_value() || *seconds > UINT64_MAX / 2'000'000 || fraction.size() > 6) return std::nullopt;
  uint64_t us = 0;
  for (size_t i = 0; i < 6; ++i) {
    const char digit = i < fraction.size() ? fraction[i] : '0';
    if (!IsDigit(digit)) return std::nullopt;
    us = us * 10 + static_cast<uint64_t>(digit - '0');
  }
  return *seconds * 1'000'000 + us;
}

}  // namespace

Result<KernelRecord> ParseKmsgRecord(std::string_view record) {
  const size_t header_end = record.find(';');
  if (header_end == std::string_view::npos) return Fail(ErrorCode::kCorrupt, "a kernel record without text");
  const std::string_view header = record.substr(0, header_end);
  KernelRecord result;
  // Later kernels may append fields to the header.
  const auto priority = LeadingNumber<uint32_t>(header);
  const std::string_view after_priority = After(header, ",");
  const auto sequence = LeadingNumber<uint64_t>(after_priority);
  const auto stamp = LeadingNumber<uint64_t>(After(after_priority, ","));
  if (!priority.has_value() || !sequence.has_value() || !stamp.has_value()) {
    return Fail(ErrorCode::kCorrupt, "a kernel record with a header that makes no sense");
  }
  SetPriority(*priority, result);
  result.sequence = *sequence;
  result.stamp_us = *stamp;

  std::string_view rest = record.substr(header_end + 1);
  result.text = Unescape(Before(rest, "\n"));
  while (!(rest = After(rest, "\n")).empty()) {
    std::string_view line = Before(rest, "\n");
    if (Consume(line, " DEVICE=")) result.device = Unescape(line);
  }
  return result;
}

Result<KernelRecord> ParseJournalRecord(std::string_view json) {
  const Json entry = Json::parse(json, nullptr, false);
  if (!entry.is_object()) return Fail(ErrorCode::kCorrupt, "a journal line that is no JSON object");
  KernelRecord result;
  result.text = JournalText(entry, "MESSAGE");
  if (result.text.empty()) return Fail(ErrorCode::kCorrupt, "a journal entry without a message");
  result.priority = WholeNumber<uint32_t>(JournalText(entry, "PRIORITY")).value_or(6) & kPriorityMask;
  result.facility = WholeNumber<uint32_t>(JournalText(entry, "SYSLOG_FACILITY")).value_or(0);
  result.stamp_us = WholeNumber<uint64_t>(JournalText(entry, "__MONOTONIC_TIMESTAMP")).value_or(0);
  // A journal that is started late takes over what the kernel wrote long before.
  const auto written_us = WholeNumber<uint64_t>(JournalText(entry, "_SOURCE_MONOTONIC_TIMESTAMP"));
  if (written_us.has_value() && *written_us < result.stamp_us &&
      result.stamp_us - *written_us > kTakenOverUs) {
    result.stamp_us = *written_us;
  }
  result.device = JournalText(entry, "_KERNEL_DEVICE");
  return result;
}

KernelRecord ParsePlainLine(std::string_view line) {
  KernelRecord result;
  line = Trim(line);
  if (line.starts_with('<')) {
    const size_t end = line.find('>');
    const auto priority =
        end == std::string_view::npos ? std::nullopt : WholeNumber<uint32_t>(line.substr(1, end - 1));
    if (priority.has_value()) {
      SetPriority(*priority, result);
      line.remove_prefix(end + 1);
    }
  } else if (const size_t kernel = line.find(" kernel: "); kernel != std::string_view::npos && kernel < 64) {
    line.remove_prefix(kernel + std::string_view(" kernel: ").size());
    line = Trim(line);
  }
  if (line.starts_with('[')) {
    const size_t end = line.find("] ");
    const auto stamp =
        end == std::string_view::npos ? std::nullopt : SecondsToMicroseconds(Trim(line.substr(1, end - 1)));
    if (stamp.has_value()) {
      result.stamp_us = *stamp;
      line.remove_prefix(end + 2);
    }
  }
  result.text = line;
  return result;
}

}  // namespace smeltr::crash
