// What the texts of Linux's /proc say. Pure: text in, figures out; whatever is missing or malformed stays 0
// or is refused, nothing is guessed. Sizes are bytes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "probe/process_tree.h"

namespace smeltr::probe {

// The leading decimal digits of `text`, spaces before them skipped; nullopt when there are none or too many.
std::optional<uint64_t> LeadingNumber(std::string_view text);

// Takes the first line off `text`, without its end.
std::string_view TakeLine(std::string_view& text);
// Takes the first word off `text`; words are separated by spaces and tabs. Empty at the end.
std::string_view TakeWord(std::string_view& text);

// /proc/<pid>/stat, all but the uid, which it does not tell. False when it is not whole.
bool ParseStat(std::string_view text, ProcessEntry& process);

struct MeminfoFigures {
  uint64_t total_bytes = 0;
  uint64_t available_bytes = 0;
  uint64_t active_bytes = 0;
  uint64_t unevictable_bytes = 0;
  uint64_t slab_unreclaimable_bytes = 0;
  uint64_t kernel_stack_bytes = 0;
  uint64_t page_tables_bytes = 0;
  uint64_t swap_total_bytes = 0;
  uint64_t swap_free_bytes = 0;
  uint64_t zswap_bytes = 0;
};
MeminfoFigures ParseMeminfo(std::string_view text);

// Counted since boot. Pages, not bytes.
struct VmstatFigures {
  uint64_t swap_ins = 0;
  uint64_t swap_outs = 0;
  uint64_t major_faults = 0;
  uint64_t oom_kills = 0;
};
VmstatFigures ParseVmstat(std::string_view text);

struct PressureFigures {
  struct Line {
    double avg10_pct = 0;
    double avg60_pct = 0;
    uint64_t total_us = 0;
  };
  Line some;
  Line full;
};
std::optional<PressureFigures> ParsePressure(std::string_view text);

// The first line of /proc/stat, in clock ticks of all cores together.
struct CpuFigures {
  uint64_t busy_ticks = 0;
  uint64_t all_ticks = 0;
};
std::optional<CpuFigures> ParseCpuLine(std::string_view text);

// /proc/<pid>/status.
struct StatusFigures {
  uint64_t rss_bytes = 0;
  uint64_t rss_anon_bytes = 0;
  uint64_t rss_file_bytes = 0;
  uint64_t rss_shmem_bytes = 0;
  uint64_t swap_bytes = 0;
  uint64_t page_table_bytes = 0;
  uint64_t peak_rss_bytes = 0;
};
StatusFigures ParseStatus(std::string_view text);

// Pss of /proc/<pid>/smaps_rollup.
std::optional<uint64_t> ParsePss(std::string_view text);

// memory used in all by a zram device: the third figure of its mm_stat.
std::optional<uint64_t> ParseZramUsed(std::string_view text);

// The value of `key` in lines of "key value", as in a cgroup's memory.events.
std::optional<uint64_t> FlatKeyed(std::string_view text, std::string_view key);

}  // namespace smeltr::probe
