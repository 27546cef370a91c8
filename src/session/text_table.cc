#include "session/text_table.h"

#include <xxhash.h>

#include <algorithm>

#include "event/frame.h"

namespace smeltr::session {
namespace {

constexpr size_t kFirstSlots = 256;
constexpr size_t kKeptSlots = 1U << 14;
constexpr size_t kKeptBytes = 1U << 20;

}  // namespace

TextTable::TextTable() : slots_(kFirstSlots) {}

uint32_t TextTable::Intern(std::string_view text) {
  if (text.empty()) return 0;
  text = event::CutText(text, event::kMaxTextBytes);
  const uint64_t hash = XXH3_64bits(text.data(), text.size());
  const size_t mask = slots_.size() - 1;
  size_t slot = hash & mask;
  for (; slots_[slot] != 0; slot = (slot + 1) & mask) {
    const Entry& entry = entries_[slots_[slot] - 1];
    if (entry.hash == hash && View(entry) == text) return slots_[slot];
  }
  entries_.push_back({hash, static_cast<uint32_t>(bytes_.size()), static_cast<uint32_t>(text.size())});
  bytes_.insert(bytes_.end(), text.begin(), text.end());
  const auto number = static_cast<uint32_t>(entries_.size());
  slots_[slot] = number;
  if (entries_.size() * 2 > slots_.size()) Grow();
  return number;
}

void TextTable::Grow() {
  slots_.assign(slots_.size() * 2, 0);
  const size_t mask = slots_.size() - 1;
  for (uint32_t number = 1; number <= entries_.size(); ++number) {
    size_t slot = entries_[number - 1].hash & mask;
    while (slots_[slot] != 0) slot = (slot + 1) & mask;
    slots_[slot] = number;
  }
}

void TextTable::Encode(Compressor& compressor, ByteBuffer& scratch, ByteBuffer& out) const {
  std::vector<uint64_t> lengths(entries_.size());
  std::ranges::transform(entries_, lengths.begin(), [](const Entry& entry) { return entry.length; });
  EncodeColumn(lengths, compressor, scratch, out);
  const size_t form_position = out.size();
  out.Put(TextForm::kPlain);
  if (compressor.Compress(std::as_bytes(std::span(bytes_)), out)) {
    out.PutAt(form_position, TextForm::kCompressed);
  } else {
    out.PutBytes(std::as_bytes(std::span(bytes_)));
  }
}

void TextTable::Clear() {
  entries_.clear();
  bytes_.clear();
  if (slots_.size() > kKeptSlots) slots_.resize(kKeptSlots);
  if (entries_.capacity() > kKeptSlots) entries_.shrink_to_fit();
  if (bytes_.capacity() > kKeptBytes) bytes_.shrink_to_fit();
  std::ranges::fill(slots_, 0);
}

bool StoredTexts::Decode(std::span<const std::byte> bytes, uint32_t count, Decompressor& decompressor) {
  Clear();
  ByteReader in(bytes);
  ColumnCursor cursor;
  if (count > kMaxTexts || !cursor.Open(in, count, decompressor)) return false;
  std::vector<uint64_t> lengths(count);
  cursor.Next(lengths);
  uint64_t total = 0;
  for (const uint64_t length : lengths) {
    if (length > kMaxTextTableBytes - total) return false;
    total += length;
  }
  const auto form = in.Load<TextForm>();
  const std::span<const std::byte> stored = in.Take(in.remaining());
  if (!in.ok()) return false;
  if (form == TextForm::kPlain) {
    if (stored.size() != total) return false;
    bytes_.assign(stored.begin(), stored.end());
  } else {
    bytes_.resize(total);
    if (form != TextForm::kCompressed || !decompressor.Decompress(stored, bytes_)) return false;
  }
  texts_.reserve(count);
  const auto* next = reinterpret_cast<const char*>(bytes_.data());
  for (const uint64_t length : lengths) {
    texts_.emplace_back(next, length);
    next += length;
  }
  return true;
}

}  // namespace smeltr::session
