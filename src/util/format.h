// Figures and text as people read them: the only place that prints a unit.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace smeltr {

// "0 ns", "870 ns", "12.3 us", "4.56 ms", "1.23 s", "2 min 05 s", "3 h 07 min": three digits that matter.
std::string FormatDuration(uint64_t ns);

// Binary units with binary names: "512 B", "12 KiB", "3.4 MiB", "1.25 GiB".
std::string FormatBytes(uint64_t bytes);

// "10 GiB", "512M", "1.5 GB", "4096": KiB, MiB, GiB, TiB and K, M, G, T are powers of 1024, kB, MB, GB, TB of
// 1000, in any case; without a unit it is bytes. Nothing for anything else, or beyond 64 bits.
std::optional<uint64_t> ParseBytes(std::string_view text);

// "1,234,567"
std::string FormatCount(uint64_t count);

// "1 kernel", "12 kernels", "1,204 kernels". `plural` empty: singular + "s".
std::string FormatCounted(uint64_t count, std::string_view singular, std::string_view plural = {});

// `part` of `whole` with one decimal and no sign, "45.3". Rounded, but never to 0.0 or 100.0 what is not:
// "<0.1" and ">99.9" instead. "0.0" when `whole` is 0.
std::string FormatPercent(uint64_t part, uint64_t whole);

// Code points, the terminal columns of most text. Malformed bytes count one each.
size_t TextWidth(std::string_view text);

// At most `width` code points, the last one replaced by "…" when cut; empty for width 0.
std::string Truncate(std::string_view text, size_t width);

// Text of unknown origin made safe for a terminal and one line: control characters and malformed UTF-8
// become '?', so that a recorded program's names cannot move the cursor or fake output.
std::string Printable(std::string_view text);

// Unix seconds as local "2026-03-01 14:05:09".
std::string FormatLocalTime(int64_t unix_seconds);

// "2026-03-01T14:05:09.123Z" or with an offset -> Unix seconds; false when it is not RFC 3339.
bool ParseRfc3339(std::string_view text, int64_t& unix_seconds);

// "SIGSEGV" for 11; "signal 99" for numbers without a name.
std::string SignalName(int signal);

}  // namespace smeltr
