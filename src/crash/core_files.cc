#include "crash/core_files.h"

#include <time.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/clock.h"
#include "crash/scan.h"

namespace smeltr::crash {
namespace {

constexpr size_t kMaxNameBytes = 255;
constexpr size_t kMaxTokens = 64;
constexpr size_t kMaxFrames = 10;

bool IsHexDigit(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f'); }

// systemd escapes what would be mistaken in a file name as \xNN.
std::string UnescapeComm(std::string_view text) {
  std::string plain;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = text.substr(i).starts_with("\\x") && i + 4 <= text.size()
                          ? WholeNumber<uint8_t>(text.substr(i + 2, 2), 16)
                          : std::nullopt;
    plain += byte.has_value() ? static_cast<char>(*byte) : text[i];
    if (byte.has_value()) i += 3;
  }
  return plain;
}

// Takes the part after the last dot off the end.
std::string_view TakeLast(std::string_view& text) {
  const size_t dot = text.rfind('.');
  if (dot == std::string_view::npos) return std::exchange(text, {});
  const std::string_view last = text.substr(dot + 1);
  text = text.substr(0, dot);
  return last;
}

struct Token {
  char specifier = 0;  // 0: the literal.
  char literal = 0;
};

// %p and the like are numbers; %e, %h ... any text without a slash.
bool IsNumeric(char specifier) { return Contains("pPiIstugdcF", std::string_view(&specifier, 1)); }
bool IsTextual(char specifier) { return Contains("eEfhC", std::string_view(&specifier, 1)); }

std::vector<Token> Tokenise(std::string_view pattern) {
  std::vector<Token> tokens;
  for (size_t i = 0; i < pattern.size() && tokens.size() <= kMaxTokens; ++i) {
    if (pattern[i] != '%') {
      tokens.push_back({.literal = pattern[i]});
      continue;
    }
    // A single % at the end, and letters that the kernel does not know, are dropped by it.
    if (++i == pattern.size()) break;
    if (pattern[i] == '%') {
      tokens.push_back({.literal = '%'});
    } else if (IsNumeric(pattern[i]) || IsTextual(pattern[i])) {
      tokens.push_back({.specifier = pattern[i]});
    }
  }
  return tokens;
}

// Texts that the tokens stand for, found without backtracking: reach[t][n] says whether the first t tokens
// can make the first n characters.
class NameMatcher {
 public:
  NameMatcher(std::vector<Token> tokens, std::string_view name) : tokens_(std::move(tokens)), name_(name) {}

  bool Match() {
    if (name_.size() > kMaxNameBytes || tokens_.size() > kMaxTokens) return false;
    reach_.assign((tokens_.size() + 1) * Columns(), false);
    reach_[0] = true;
    for (size_t t = 0; t < tokens_.size(); ++t) {
      for (size_t n = 0; n <= name_.size(); ++n) {
        if (Reached(t, n)) Extend(t, n);
      }
    }
    return Reached(tokens_.size(), name_.size());
  }

  // After a match: what each specifier stands for, the last ones as short as they can be.
  void Collect(CoreFile& file) const {
    size_t end = name_.size();
    for (size_t t = tokens_.size(); t-- > 0;) {
      size_t begin = end;
      while (!(Reached(t, begin) && Fits(tokens_[t], name_.substr(begin, end - begin)))) {
        if (begin == 0) return;
        --begin;
      }
      Store(tokens_[t].specifier, name_.substr(begin, end - begin), file);
      end = begin;
    }
  }

 private:
  size_t Columns() const { return name_.size() + 1; }
  bool Reached(size_t token, size_t length) const { return reach_[token * Columns() + length]; }

  static bool Fits(const Token& token, std::string_view text) {
    if (token.specifier == 0) return text.size() == 1 && text[0] == token.literal;
    if (IsTextual(token.specifier)) return true;
    return !text.empty() && std::ranges::all_of(text, IsDigit);
  }

  void Extend(size_t t, size_t n) {
    const Token& token = tokens_[t];
    if (token.specifier == 0) {
      if (n < name_.size() && name_[n] == token.literal) reach_[(t + 1) * Columns() + n + 1] = true;
      return;
    }
    const bool textual = IsTextual(token.specifier);
    if (textual) reach_[(t + 1) * Columns() + n] = true;
    for (size_t end = n; end < name_.size() && (textual || IsDigit(name_[end])); ++end) {
      reach_[(t + 1) * Columns() + end + 1] = true;
    }
  }

  static void Store(char specifier, std::string_view text, CoreFile& file) {
    const auto number = WholeNumber<uint64_t>(text).value_or(0);
    const uint32_t small = number <= UINT32_MAX ? static_cast<uint32_t>(number) : 0;
    switch (specifier) {
      case 'P':  // As the first pid namespace counts, as all that the kernel says elsewhere.
        file.pid = small;
        break;
      case 'p':
        if (file.pid == 0) file.pid = small;
        break;
      case 's':
        file.signal = small;
        break;
      case 'u':
        file.uid = small;
        break;
      case 't':
        if (number <= UINT64_MAX / kNsPerSecond) file.unix_ns = number * kNsPerSecond;
        break;
      case 'e':
        file.comm = text;
        break;
      case 'E':
        file.executable = text;
        std::ranges::replace(file.executable, '!', '/');
        break;
      default:
        break;
    }
  }

  std::vector<Token> tokens_;
  std::string_view name_;
  std::vector<bool> reach_;
};

// "Mon Jan  5 12:34:56 2026" in local time, as asctime() writes it.
uint64_t ParseAsctime(std::string_view text) {
  const std::string copy(text.substr(0, 64));
  tm local{};
  const char* end = ::strptime(copy.c_str(), "%a %b %d %H:%M:%S %Y", &local);
  local.tm_isdst = -1;
  const time_t seconds = end == nullptr ? -1 : ::mktime(&local);
  return seconds <= 0 ? 0 : static_cast<uint64_t>(seconds) * kNsPerSecond;
}

// Keys of interest with their values; continuation lines joined by line breaks.
std::map<std::string, std::string, std::less<>> ApportFields(std::string_view text) {
  constexpr auto kKeys = std::to_array<std::string_view>({"ProblemType", "ExecutablePath", "Signal",
                                                          "SignalName", "Date", "ProcStatus", "StacktraceTop",
                                                          "ProcCmdline", "Uname", "CoreDump", "Pid"});
  std::map<std::string, std::string, std::less<>> fields;
  std::string* current = nullptr;
  while (!text.empty()) {
    const std::string_view line = Before(text, "\n");
    text = After(text, "\n");
    if (line.starts_with(' ')) {
      if (current != nullptr && current->size() < 8192)
        current->append(current->empty() ? "" : "\n").append(line.substr(1));
      continue;
    }
    const std::string_view key = Before(line, ":");
    current = nullptr;
    if (key.size() == line.size() || std::ranges::find(kKeys, key) == kKeys.end()) continue;
    current = &fields[std::string(key)];
    *current = Trim(line.substr(key.size() + 1));
    // Its lines are megabytes of base64.
    if (key == "CoreDump") current = nullptr;
  }
  return fields;
}

}  // namespace

CorePattern ParseCorePattern(std::string_view text) {
  text = Trim(text);
  CorePattern pattern;
  pattern.text = text;
  if (text.empty()) return pattern;
  if (Consume(text, "|")) {
    const std::string_view program = Before(Trim(text), " ");
    const size_t slash = program.rfind('/');
    const std::string_view name = slash == std::string_view::npos ? program : program.substr(slash + 1);
    pattern.handler = CoreHandler::kOtherPipe;
    if (name == "systemd-coredump") pattern.handler = CoreHandler::kSystemdCoredump;
    if (name == "apport") pattern.handler = CoreHandler::kApport;
    if (name.starts_with("abrt-hook")) pattern.handler = CoreHandler::kAbrt;
    return pattern;
  }
  pattern.handler = CoreHandler::kPath;
  const size_t slash = text.rfind('/');
  // A relative path with a directory in it is relative to the working directory too.
  if (text.starts_with('/')) pattern.directory = slash == 0 ? text.substr(0, 1) : text.substr(0, slash);
  pattern.name = slash == std::string_view::npos ? text : text.substr(slash + 1);
  return pattern;
}

std::optional<CoreFile> ParseSystemdCoreName(std::string_view file_name) {
  std::string_view rest = file_name;
  if (file_name.size() > kMaxNameBytes || !Consume(rest, "core.")) return std::nullopt;
  for (const std::string_view suffix : {".zst", ".lz4", ".xz"}) {
    if (rest.ends_with(suffix)) rest.remove_suffix(suffix.size());
  }
  CoreFile file;
  const auto us = WholeNumber<uint64_t>(TakeLast(rest));
  const auto pid = WholeNumber<uint32_t>(TakeLast(rest));
  file.boot_id = TakeLast(rest);
  const auto uid = WholeNumber<uint32_t>(TakeLast(rest));
  if (!us.has_value() || !pid.has_value() || !uid.has_value() || *us > UINT64_MAX / 1000 || rest.empty() ||
      file.boot_id.size() != 32 || !std::ranges::all_of(file.boot_id, IsHexDigit)) {
    return std::nullopt;
  }
  file.unix_ns = *us * 1000;
  file.pid = *pid;
  file.uid = *uid;
  file.comm = UnescapeComm(rest);
  return file;
}

std::optional<CoreFile> MatchCoreName(const CorePattern& pattern, bool append_pid,
                                      std::string_view file_name) {
  std::vector<Token> tokens = Tokenise(pattern.name);
  const bool has_pid = std::ranges::any_of(
      tokens, [](const Token& token) { return token.specifier == 'p' || token.specifier == 'P'; });
  if (append_pid && !has_pid) {
    tokens.push_back({.literal = '.'});
    tokens.push_back({.specifier = 'p'});
  }
  NameMatcher matcher(std::move(tokens), file_name);
  if (pattern.handler != CoreHandler::kPath || !matcher.Match()) return std::nullopt;
  CoreFile file;
  matcher.Collect(file);
  return file;
}

Result<CollectedCrash> ParseApportReport(std::string_view text) {
  const auto fields = ApportFields(text);
  const auto field = [&](std::string_view key) {
    const auto found = fields.find(key);
    return found == fields.end() ? std::string() : found->second;
  };
  const std::string type = field("ProblemType");
  if (type.empty()) return Fail(ErrorCode::kUnavailable, "the report is not complete, or no apport report");
  if (type != "Crash") return Fail(ErrorCode::kUnsupported, "not the report of a crash");
  CollectedCrash crash;
  crash.executable = field("ExecutablePath");
  if (crash.executable.empty()) return Fail(ErrorCode::kUnavailable, "the report is not complete yet");
  const size_t slash = crash.executable.rfind('/');
  crash.process_name = slash == std::string::npos ? crash.executable : crash.executable.substr(slash + 1);
  crash.signal = WholeNumber<uint32_t>(field("Signal")).value_or(0);
  crash.unix_ns = ParseAsctime(field("Date"));
  // The process's /proc/<pid>/status.
  const std::string status = "\n" + field("ProcStatus");
  crash.pid = LeadingNumber<uint32_t>(Trim(After(status, "\nPid:"))).value_or(0);
  if (const std::string_view name = Trim(Before(After(status, "\nName:"), "\n")); !name.empty()) {
    crash.process_name = name;
  }
  crash.summary = crash.executable;
  const std::string stack = field("StacktraceTop");
  std::string_view rest = stack;
  while (!rest.empty() && crash.frames.size() < kMaxFrames) {
    if (const std::string_view frame = Trim(Before(rest, "\n")); !frame.empty())
      crash.frames.emplace_back(frame);
    rest = After(rest, "\n");
  }
  return crash;
}

}  // namespace smeltr::crash
