#include "crash/core_notes.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/bytes.h"

namespace smeltr::crash {
namespace {

constexpr uint16_t kTypeCore = 4;     // ET_CORE
constexpr uint32_t kSegmentNote = 4;  // PT_NOTE
constexpr size_t kProgramHeaderBytes = 56;
constexpr size_t kMaxSegments = 4096;
constexpr size_t kMaxNotes = 4096;

constexpr uint32_t kNoteStatus = 1;           // NT_PRSTATUS
constexpr uint32_t kNoteProcess = 3;          // NT_PRPSINFO
constexpr uint32_t kNoteSignal = 0x53494749;  // NT_SIGINFO

using Bytes = std::span<const std::byte>;

// The value at `offset`; 0 beyond the end.
template <Scalar T>
T At(Bytes bytes, size_t offset) {
  if (offset > bytes.size()) return {};
  ByteReader reader(bytes.subspan(offset));
  return reader.Load<T>();
}

std::string TextAt(Bytes bytes, size_t offset, size_t size) {
  if (offset > bytes.size()) return {};
  const Bytes part = bytes.subspan(offset, std::min(size, bytes.size() - offset));
  const std::string_view text(reinterpret_cast<const char*>(part.data()), part.size());
  return std::string(text.substr(0, text.find('\0')));
}

bool HasAddress(uint32_t signal) {
  constexpr auto kFaults = std::to_array<uint32_t>({4, 5, 7, 8, 11});  // ILL, TRAP, BUS, FPE, SEGV
  return std::ranges::find(kFaults, signal) != kFaults.end();
}

// Offsets are those of the 64-bit structs elf_prstatus, elf_prpsinfo and siginfo.
void ReadNote(uint32_t type, Bytes note, CoreNotes& notes) {
  switch (type) {
    case kNoteStatus:
      // One a thread; the first is that of the thread that died.
      if (notes.signal == 0) notes.signal = At<uint16_t>(note, 12);
      if (notes.pid == 0) notes.pid = At<uint32_t>(note, 32);
      break;
    case kNoteProcess:
      notes.pid = At<uint32_t>(note, 24);
      notes.comm = TextAt(note, 40, 16);
      notes.command_line = TextAt(note, 56, 80);
      break;
    case kNoteSignal:
      notes.signal = At<uint32_t>(note, 0);
      notes.signal_code = At<int32_t>(note, 8);
      // A sender's pid stands there for signals that were sent.
      if (HasAddress(notes.signal) && notes.signal_code > 0) notes.address = At<uint64_t>(note, 16);
      break;
    default:
      break;
  }
}

void ReadNotes(Bytes segment, CoreNotes& notes) {
  ByteReader reader(segment);
  const auto padded = [](uint32_t size) { return (size_t{size} + 3) & ~size_t{3}; };
  for (size_t i = 0; i < kMaxNotes && reader.remaining() >= 12; ++i) {
    const auto name_size = reader.Load<uint32_t>();
    const auto size = reader.Load<uint32_t>();
    const auto type = reader.Load<uint32_t>();
    const std::string_view name = reader.TakeText(padded(name_size));
    // The last one may be cut by the end of what was read.
    const Bytes content = reader.Take(std::min(padded(size), reader.remaining()));
    if (!reader.ok()) return;
    if (name.starts_with("CORE")) ReadNote(type, content, notes);
  }
}

}  // namespace

std::optional<CoreNotes> ReadCoreNotes(Bytes head) {
  constexpr std::string_view kMagic =
      "\x7f"
      "ELF\x02\x01";
  ByteReader reader(head);
  const std::string_view ident = reader.TakeText(16);
  if (!reader.ok() || !ident.starts_with(kMagic) || At<uint16_t>(head, 16) != kTypeCore) return std::nullopt;
  const auto table_at = At<uint64_t>(head, 32);
  const auto entry_size = At<uint16_t>(head, 54);
  const size_t count = std::min<size_t>(At<uint16_t>(head, 56), kMaxSegments);
  if (entry_size != kProgramHeaderBytes || table_at >= head.size()) return std::nullopt;
  for (size_t i = 0; i < count; ++i) {
    const size_t entry = static_cast<size_t>(table_at) + i * kProgramHeaderBytes;
    if (At<uint32_t>(head, entry) != kSegmentNote) continue;
    const auto offset = At<uint64_t>(head, entry + 8);
    const auto size = At<uint64_t>(head, entry + 32);
    if (offset >= head.size()) return std::nullopt;
    CoreNotes notes;
    const size_t available = head.size() - static_cast<size_t>(offset);
    ReadNotes(
        head.subspan(static_cast<size_t>(offset), static_cast<size_t>(std::min<uint64_t>(size, available))),
        notes);
    if (notes.pid == 0 && notes.signal == 0) return std::nullopt;
    return notes;
  }
  return std::nullopt;
}

}  // namespace smeltr::crash
