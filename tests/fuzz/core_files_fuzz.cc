// Names of core files, patterns for them, collectors' reports, and core files themselves. The input's first
// line is the pattern, the rest the name or the file.
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "crash/core_files.h"
#include "crash/core_notes.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace smeltr::crash;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const size_t end = text.find('\n');
  const CorePattern pattern = ParseCorePattern(text.substr(0, end));
  const std::string_view rest = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  MatchCoreName(pattern, true, rest);
  MatchCoreName(pattern, false, rest);
  ParseSystemdCoreName(text);
  [[maybe_unused]] const auto report = ParseApportReport(text);
  ReadCoreNotes(std::as_bytes(std::span(data, size)));
  return 0;
}
