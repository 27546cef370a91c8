#include "crash/apple_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <utility>

#include "base/clock.h"
#include "crash/apple_json.h"
#include "crash/scan.h"
#include "util/format.h"

namespace smeltr::crash {
namespace {

constexpr std::string_view kJetsamBugType = "298";
constexpr uint64_t kDefaultPageBytes = 16384;
constexpr size_t kMaxFrames = 10;
constexpr size_t kMaxCodes = 16;
constexpr size_t kMaxSummaryBytes = 2048;
constexpr size_t kMaxMessages = 8;

// macOS counts its signals differently from Linux.
std::string DarwinSignalName(uint64_t number) {
  constexpr std::array<std::string_view, 32> kNames = {
      "",        "SIGHUP",  "SIGINT",    "SIGQUIT", "SIGILL",   "SIGTRAP", "SIGABRT", "SIGEMT",
      "SIGFPE",  "SIGKILL", "SIGBUS",    "SIGSEGV", "SIGSYS",   "SIGPIPE", "SIGALRM", "SIGTERM",
      "SIGURG",  "SIGSTOP", "SIGTSTP",   "SIGCONT", "SIGCHLD",  "SIGTTIN", "SIGTTOU", "SIGIO",
      "SIGXCPU", "SIGXFSZ", "SIGVTALRM", "SIGPROF", "SIGWINCH", "SIGINFO", "SIGUSR1", "SIGUSR2"};
  return number < kNames.size() ? std::string(kNames[number]) : std::string();
}

void AddPart(std::string_view separator, std::string_view part, std::string& text) {
  part = Trim(part);
  if (part.empty() || text.size() >= kMaxSummaryBytes || Contains(text, part)) return;
  if (!text.empty()) text += separator;
  text += part.substr(0, kMaxSummaryBytes);
}

std::string SignalOf(const Json& body) {
  const Json& termination = Member(body, "termination");
  if (TextOf(termination, "namespace") == "SIGNAL") {
    std::string name = DarwinSignalName(NumberOf(termination, "code"));
    if (!name.empty()) return name;
  }
  return TextOf(Member(body, "exception"), "signal");
}

std::vector<int64_t> CodesOf(const Json& exception) {
  std::vector<int64_t> codes;
  const Json& raw = Member(exception, "rawCodes");
  if (raw.is_array()) {
    for (const Json& code : raw) {
      if (codes.size() == kMaxCodes) break;
      if (code.is_number_integer()) codes.push_back(code.get<int64_t>());
    }
  }
  const std::string subtype = TextOf(exception, "subtype");
  std::string_view rest = subtype;
  while (codes.size() < kMaxCodes && !(rest = After(rest, "(0x")).empty()) {
    if (const auto code = LeadingNumber<uint64_t>(rest, 16)) codes.push_back(static_cast<int64_t>(*code));
  }
  return codes;
}

std::string SummaryOf(const Json& body) {
  const Json& exception = Member(body, "exception");
  const Json& termination = Member(body, "termination");
  std::string summary = TextOf(exception, "type").substr(0, kMaxSummaryBytes);
  AddPart(": ", TextOf(exception, "subtype"), summary);
  if (const std::string name = TextOf(termination, "namespace"); !name.empty() && name != "SIGNAL") {
    AddPart("; ", fmt::format("{} {:#x}", name.substr(0, 64), NumberOf(termination, "code")), summary);
  }
  AddPart("; ", TextOf(termination, "indicator"), summary);
  for (const char* list : {"reasons", "details"}) {
    const Json& reasons = Member(termination, list);
    if (!reasons.is_array()) continue;
    for (size_t i = 0; i < std::min(reasons.size(), kMaxMessages); ++i)
      AddPart("; ", TextOf(reasons[i]), summary);
  }
  // Application-specific information: by library, lists of messages.
  const Json& messages = Member(body, "asi");
  if (messages.is_object()) {
    for (const auto& [library, texts] : messages.items()) {
      if (!texts.is_array()) continue;
      for (size_t i = 0; i < std::min(texts.size(), kMaxMessages); ++i)
        AddPart("; ", TextOf(texts[i]), summary);
    }
  }
  return summary;
}

const Json& FaultingThread(const Json& body) {
  const Json& threads = Member(body, "threads");
  static const Json kNothing;
  if (!threads.is_array()) return kNothing;
  const Json& index = Member(body, "faultingThread");
  if (index.is_number_unsigned() && index.get<uint64_t>() < threads.size()) {
    return threads[index.get<uint64_t>()];
  }
  const auto triggered = std::ranges::find_if(threads, [](const Json& thread) {
    const Json& flag = Member(thread, "triggered");
    return flag.is_boolean() && flag.get<bool>();
  });
  return triggered == threads.end() ? kNothing : *triggered;
}

// "symbol + 8 (library)"; without a symbol, the offset in the library.
std::vector<std::string> FramesOf(const Json& body) {
  const Json& frames = Member(FaultingThread(body), "frames");
  const Json& images = Member(body, "usedImages");
  std::vector<std::string> texts;
  if (!frames.is_array()) return texts;
  for (const Json& frame : frames) {
    if (texts.size() == kMaxFrames) break;
    std::string image;
    const Json& index = Member(frame, "imageIndex");
    if (images.is_array() && index.is_number_unsigned() && index.get<uint64_t>() < images.size()) {
      image = TextOf(images[index.get<uint64_t>()], "name");
    }
    if (image.empty()) image.push_back('?');
    const std::string symbol = TextOf(frame, "symbol");
    std::string text = symbol.empty()
                           ? fmt::format("{} + {}", image, NumberOf(frame, "imageOffset"))
                           : fmt::format("{} + {} ({})", symbol, NumberOf(frame, "symbolLocation"), image);
    texts.push_back(Truncate(text, 256));
  }
  return texts;
}

AppleCrash CrashOf(const Json& header, const Json& body) {
  AppleCrash crash;
  crash.process_name = TextOf(body, "procName");
  if (crash.process_name.empty()) crash.process_name = TextOf(header, "app_name");
  crash.pid = PidOf(body, "pid");
  crash.signal = SignalOf(body);
  crash.exception_codes = CodesOf(Member(body, "exception"));
  crash.summary = SummaryOf(body);
  crash.frames = FramesOf(body);
  return crash;
}

uint64_t PagesToBytes(uint64_t pages, uint64_t page_bytes) {
  return pages > UINT64_MAX / page_bytes ? UINT64_MAX : pages * page_bytes;
}

AppleJetsam JetsamOf(const Json& body) {
  AppleJetsam jetsam;
  jetsam.page_size_bytes = NumberOf(Member(body, "memoryStatus"), "pageSize");
  if (jetsam.page_size_bytes == 0) jetsam.page_size_bytes = NumberOf(body, "pageSize");
  if (jetsam.page_size_bytes == 0) jetsam.page_size_bytes = kDefaultPageBytes;
  const Json& processes = Member(body, "processes");
  if (!processes.is_array()) return jetsam;
  for (const Json& process : processes) {
    std::string reason = TextOf(process, "reason");
    if (reason.empty() && !Member(process, "killDelta").is_number()) continue;
    JetsamVictim victim;
    victim.process_name = TextOf(process, "name");
    victim.pid = PidOf(process, "pid");
    victim.footprint_bytes = PagesToBytes(NumberOf(process, "rpages"), jetsam.page_size_bytes);
    victim.lifetime_max_bytes = PagesToBytes(NumberOf(process, "lifetimeMax"), jetsam.page_size_bytes);
    victim.reason = std::move(reason);
    jetsam.victims.push_back(std::move(victim));
  }
  return jetsam;
}

std::string FirstOf(std::string first, std::string second) { return first.empty() ? second : first; }

}  // namespace

uint64_t ParseAppleTime(std::string_view text) {
  text = Trim(text);
  const size_t offset_at = text.find_last_of("+-");
  // Date, time, offset: "2024-06-08 16:01:19" is 19 long.
  if (text.size() < 24 || text[10] != ' ' || offset_at == std::string_view::npos || offset_at < 19 ||
      text.size() - offset_at != 5) {
    return 0;
  }
  const std::string_view fraction = After(Trim(text.substr(0, offset_at)), ".");
  const std::string rfc3339 = fmt::format("{}T{}{}:{}", text.substr(0, 10), text.substr(11, 8),
                                          text.substr(offset_at, 3), text.substr(offset_at + 3));
  int64_t seconds = 0;
  if (!ParseRfc3339(rfc3339, seconds) || seconds < 0 ||
      static_cast<uint64_t>(seconds) > UINT64_MAX / kNsPerSecond - 1) {
    return 0;
  }
  uint64_t ns = 0;
  uint64_t unit_ns = kNsPerSecond / 10;
  for (const char digit : fraction) {
    if (!IsDigit(digit) || unit_ns == 0) break;
    ns += static_cast<uint64_t>(digit - '0') * unit_ns;
    unit_ns /= 10;
  }
  return static_cast<uint64_t>(seconds) * kNsPerSecond + ns;
}

Result<AppleReport> ParseAppleReport(std::string_view text) {
  const Json first = Json::parse(Before(text, "\n"), nullptr, false);
  // Some tools write one object with everything in it.
  const Json body = Json::parse(first.is_object() ? After(text, "\n") : text, nullptr, false);
  // Never copied: copying is recursive, and the nesting is a stranger's.
  const Json& header = first.is_object() ? first : body;
  if (!body.is_object()) {
    return Fail(ErrorCode::kUnavailable, "the report is not complete, or no .ips report");
  }
  AppleReport report;
  report.bug_type = FirstOf(TextOf(header, "bug_type"), TextOf(body, "bug_type"));
  report.incident_id = FirstOf(TextOf(header, "incident_id"), TextOf(body, "incident"));
  for (const std::string& time :
       {TextOf(body, "captureTime"), TextOf(body, "date"), TextOf(header, "timestamp")}) {
    if (report.report_unix_ns == 0) report.report_unix_ns = ParseAppleTime(time);
  }
  if (report.bug_type == kJetsamBugType) {
    report.body = JetsamOf(body);
  } else if (Member(body, "exception").is_object() || Member(body, "termination").is_object()) {
    report.body = CrashOf(header, body);
  }
  return report;
}

}  // namespace smeltr::crash
