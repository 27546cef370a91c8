// One line of the kernel's log, however it was come by: /dev/kmsg, the journal, or a log file.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace smeltr::crash {

struct KernelRecord {
  uint32_t priority = 6;  // syslog's: 0 emergency to 7 debug.
  uint32_t facility = 0;  // 0: the kernel itself.
  uint64_t sequence = 0;  // Counts all records since boot; 0 when not known.
  // When it was written, in us of the clock that the source has: the kernel's for /dev/kmsg and log files,
  // CLOCK_MONOTONIC for the journal. 0 when not known.
  uint64_t stamp_us = 0;
  std::string text;    // May span lines.
  std::string device;  // What the driver says it is about, as in "+pci:0000:08:00.0"; often empty.
};

// What one read() of /dev/kmsg gives: "prio,seq,us,flags;text", then " KEY=value" lines.
Result<KernelRecord> ParseKmsgRecord(std::string_view record);

// One line of `journalctl -k -o json`.
Result<KernelRecord> ParseJournalRecord(std::string_view json);

// A line as dmesg, syslog and journalctl print it: "[  12.345678] text", "May 15 23:09:30 host kernel: text",
// "<6>[ 12.3] text". What is not understood is part of the text.
KernelRecord ParsePlainLine(std::string_view line);

}  // namespace smeltr::crash
