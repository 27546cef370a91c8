#include "crash/apple_log.h"

#include "crash/apple_json.h"
#include "crash/apple_report.h"

namespace smeltr::crash {
namespace {

uint32_t PriorityOf(std::string_view message_type) {
  if (message_type == "Fault" || message_type == "Error") return 3;
  if (message_type == "Info") return 6;
  return message_type == "Debug" ? 7 : 5;
}

}  // namespace

Result<AppleLogLine> ParseAppleLogLine(std::string_view json) {
  const Json entry = Json::parse(json, nullptr, false);
  if (!Member(entry, "eventMessage").is_string()) return Fail(ErrorCode::kCorrupt, "not a log entry");
  AppleLogLine line;
  line.wall_unix_ns = ParseAppleTime(TextOf(entry, "timestamp"));
  line.subsystem = TextOf(entry, "subsystem");
  line.category = TextOf(entry, "category");
  line.message = TextOf(entry, "eventMessage");
  const std::string path = TextOf(entry, "processImagePath");
  const size_t slash = path.rfind('/');
  line.process_name = slash == std::string::npos ? path : path.substr(slash + 1);
  line.pid = PidOf(entry, "processID");
  line.priority = PriorityOf(TextOf(entry, "messageType"));
  return line;
}

}  // namespace smeltr::crash
