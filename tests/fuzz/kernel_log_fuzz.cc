// Lines of a kernel log, in every form that they come in: read or not, never more.
#include <cstdint>
#include <cstdlib>
#include <string_view>
#include <vector>

#include "crash/kernel_log.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace smeltr::crash;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  KernelLog log;
  std::vector<Finding> findings;
  size_t lines = 0;
  for (std::string_view rest = text; !rest.empty(); ++lines) {
    const size_t end = rest.find('\n');
    const std::string_view line = rest.substr(0, end);
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
    log.Add(ParsePlainLine(line), findings);
    if (const auto record = ParseKmsgRecord(line)) log.Add(*record, findings);
    if (const auto record = ParseJournalRecord(line)) log.Add(*record, findings);
  }
  if (const auto record = ParseKmsgRecord(text)) log.Add(*record, findings);
  log.Expire(UINT64_MAX, findings);
  // Nothing is told twice.
  if (findings.size() > 3 * lines + 1) std::abort();
  return 0;
}
