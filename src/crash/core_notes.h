// The beginning of an ELF core file: who died, and of what.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace smeltr::crash {

// How much of the file is enough for ReadCoreNotes() as a rule: program headers and the notes that come
// first.
inline constexpr size_t kCoreHeadBytes = size_t{256} << 10;

struct CoreNotes {
  uint32_t pid = 0;
  uint32_t signal = 0;
  int32_t signal_code = 0;  // si_code
  uint64_t address = 0;     // Of the fault, for signals that have one.
  std::string comm;
  std::string command_line;
};

// nullopt for anything but a little-endian 64-bit core file whose notes begin within `head`.
std::optional<CoreNotes> ReadCoreNotes(std::span<const std::byte> head);

}  // namespace smeltr::crash
