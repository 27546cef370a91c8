#include "probe/proc_text.h"

#include <algorithm>
#include <charconv>
#include <span>

namespace smeltr::probe {
namespace {

constexpr std::string_view kBlank = " \t";

// "<key>: <number> kB" lines into the fields that a table names.
template <typename Figures>
struct Keyed {
  std::string_view key;
  uint64_t Figures::* field;
};

template <typename Figures>
void FillKeyed(std::string_view text, std::span<const Keyed<Figures>> table, uint64_t unit, Figures& out) {
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    const size_t end = line.find_first_of(": ");
    if (end == std::string_view::npos) continue;
    const auto at = std::ranges::find(table, line.substr(0, end), &Keyed<Figures>::key);
    if (at == table.end()) continue;
    const uint64_t value = LeadingNumber(line.substr(end + 1)).value_or(0);
    if (value <= UINT64_MAX / unit) out.*(at->field) = value * unit;
  }
}

constexpr uint64_t kKiB = 1024;

// "12.34": digits, a point and two digits, as the kernel prints averages.
std::optional<double> Decimal(std::string_view text) {
  const auto whole = LeadingNumber(text);
  if (!whole.has_value()) return std::nullopt;
  const size_t point = text.find('.');
  const std::string_view digits = point == std::string_view::npos ? "" : text.substr(point + 1, 2);
  const auto hundredths = LeadingNumber(digits).value_or(0) * (digits.size() == 1 ? 10 : 1);
  return (static_cast<double>(*whole) * 100 + static_cast<double>(hundredths)) / 100;
}

// "avg10=0.00 avg60=0.00 avg300=0.00 total=0"
bool ParsePressureLine(std::string_view text, PressureFigures::Line& line) {
  bool seen = false;
  for (std::string_view word = TakeWord(text); !word.empty(); word = TakeWord(text)) {
    const size_t equals = word.find('=');
    if (equals == std::string_view::npos) continue;
    const std::string_view key = word.substr(0, equals);
    const std::string_view value = word.substr(equals + 1);
    if (key == "total") line.total_us = LeadingNumber(value).value_or(0);
    if (key == "avg60") line.avg60_pct = Decimal(value).value_or(0);
    if (key == "avg10") {
      const auto average = Decimal(value);
      seen = average.has_value();
      line.avg10_pct = average.value_or(0);
    }
  }
  return seen;
}

template <typename T>
bool WholeNumber(std::string_view text, T& value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc{} && end == text.data() + text.size();
}

}  // namespace

std::optional<uint64_t> LeadingNumber(std::string_view text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{}) return std::nullopt;
  return value;
}

std::string_view TakeLine(std::string_view& text) {
  const size_t end = std::min(text.find('\n'), text.size());
  const std::string_view line = text.substr(0, end);
  text.remove_prefix(std::min(end + 1, text.size()));
  return line;
}

std::string_view TakeWord(std::string_view& text) {
  text.remove_prefix(std::min(text.find_first_not_of(kBlank), text.size()));
  const size_t end = std::min(text.find_first_of(kBlank), text.size());
  const std::string_view word = text.substr(0, end);
  text.remove_prefix(end);
  return word;
}

bool ParseStat(std::string_view text, ProcessEntry& process) {
  // A name may hold spaces and parentheses itself; the fields begin after the last one.
  const size_t open = text.find('(');
  const size_t close = text.rfind(')');
  if (open == std::string_view::npos || close == std::string_view::npos || close < open || open == 0) {
    return false;
  }
  if (!WholeNumber(text.substr(0, text.find(' ')), process.pid)) return false;
  process.name.assign(text.substr(open + 1, close - open - 1));
  std::string_view rest = text.substr(close + 1);
  uint64_t user_ticks = 0;
  uint64_t system_ticks = 0;
  bool good = true;
  for (int field = 3; field <= 22 && good; ++field) {
    const std::string_view word = TakeWord(rest);
    good = !word.empty();
    if (!good) break;
    if (field == 3) process.state = word.front();
    if (field == 4) good = WholeNumber(word, process.parent_pid);
    if (field == 14) good = WholeNumber(word, user_ticks);
    if (field == 15) good = WholeNumber(word, system_ticks);
    if (field == 20) good = WholeNumber(word, process.thread_count);
    if (field == 22) good = WholeNumber(word, process.start_time_ticks);
  }
  process.cpu_ticks = user_ticks + system_ticks;
  return good;
}

MeminfoFigures ParseMeminfo(std::string_view text) {
  static constexpr Keyed<MeminfoFigures> kTable[] = {
      {"MemTotal", &MeminfoFigures::total_bytes},
      {"MemAvailable", &MeminfoFigures::available_bytes},
      {"Active", &MeminfoFigures::active_bytes},
      {"Unevictable", &MeminfoFigures::unevictable_bytes},
      {"SUnreclaim", &MeminfoFigures::slab_unreclaimable_bytes},
      {"KernelStack", &MeminfoFigures::kernel_stack_bytes},
      {"PageTables", &MeminfoFigures::page_tables_bytes},
      {"SwapTotal", &MeminfoFigures::swap_total_bytes},
      {"SwapFree", &MeminfoFigures::swap_free_bytes},
      {"Zswap", &MeminfoFigures::zswap_bytes}};
  MeminfoFigures figures;
  FillKeyed<MeminfoFigures>(text, kTable, kKiB, figures);
  return figures;
}

VmstatFigures ParseVmstat(std::string_view text) {
  static constexpr Keyed<VmstatFigures> kTable[] = {{"pswpin", &VmstatFigures::swap_ins},
                                                    {"pswpout", &VmstatFigures::swap_outs},
                                                    {"pgmajfault", &VmstatFigures::major_faults},
                                                    {"oom_kill", &VmstatFigures::oom_kills}};
  VmstatFigures figures;
  FillKeyed<VmstatFigures>(text, kTable, 1, figures);
  return figures;
}

std::optional<PressureFigures> ParsePressure(std::string_view text) {
  PressureFigures figures;
  bool some = false;
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    const std::string_view which = TakeWord(line);
    if (which == "some") some = ParsePressureLine(line, figures.some);
    // Older kernels have no such line for the CPU.
    if (which == "full") ParsePressureLine(line, figures.full);
  }
  if (!some) return std::nullopt;
  return figures;
}

std::optional<CpuFigures> ParseCpuLine(std::string_view text) {
  std::string_view line = TakeLine(text);
  if (TakeWord(line) != "cpu") return std::nullopt;
  CpuFigures figures;
  // user nice system idle iowait irq softirq steal; guest times, which follow, are part of user already.
  for (int column = 0; column < 8; ++column) {
    uint64_t ticks = 0;
    if (!WholeNumber(TakeWord(line), ticks)) {
      if (column < 4) return std::nullopt;
      break;
    }
    figures.all_ticks += ticks;
    if (column != 3 && column != 4) figures.busy_ticks += ticks;
  }
  return figures;
}

StatusFigures ParseStatus(std::string_view text) {
  static constexpr Keyed<StatusFigures> kTable[] = {
      {"VmRSS", &StatusFigures::rss_bytes},        {"RssAnon", &StatusFigures::rss_anon_bytes},
      {"RssFile", &StatusFigures::rss_file_bytes}, {"RssShmem", &StatusFigures::rss_shmem_bytes},
      {"VmSwap", &StatusFigures::swap_bytes},      {"VmPTE", &StatusFigures::page_table_bytes},
      {"VmHWM", &StatusFigures::peak_rss_bytes}};
  StatusFigures figures;
  FillKeyed<StatusFigures>(text, kTable, kKiB, figures);
  return figures;
}

std::optional<uint64_t> ParsePss(std::string_view text) {
  constexpr std::string_view kPss = "\nPss:";
  const size_t at = text.find(kPss);
  if (at == std::string_view::npos) return std::nullopt;
  const auto value = LeadingNumber(text.substr(at + kPss.size()));
  if (!value.has_value() || *value > UINT64_MAX / kKiB) return std::nullopt;
  return *value * kKiB;
}

std::optional<uint64_t> ParseZramUsed(std::string_view text) {
  TakeWord(text);
  TakeWord(text);
  return LeadingNumber(TakeWord(text));
}

std::optional<uint64_t> FlatKeyed(std::string_view text, std::string_view key) {
  while (!text.empty()) {
    std::string_view line = TakeLine(text);
    if (TakeWord(line) == key) return LeadingNumber(line);
  }
  return std::nullopt;
}

}  // namespace smeltr::probe
