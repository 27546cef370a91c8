#include "analysis/tables.h"

#include <xxhash.h>

#include <algorithm>

namespace smeltr::analysis {
namespace {

constexpr size_t kBlockBytes = size_t{64} * 1024;

uint32_t HashOf(std::string_view text) {
  return static_cast<uint32_t>(XXH3_64bits(text.data(), text.size()));
}

}  // namespace

StringTable::StringTable() : slots_(64, kNone) { Intern({}); }

uint32_t StringTable::Intern(std::string_view text) {
  if (texts_.size() * 2 >= slots_.size()) Grow();
  const uint32_t hash = HashOf(text);
  size_t at = hash & (slots_.size() - 1);
  while (slots_[at] != kNone) {
    if (hashes_[slots_[at]] == hash && texts_[slots_[at]] == text) return slots_[at];
    at = (at + 1) & (slots_.size() - 1);
  }
  const auto number = static_cast<uint32_t>(texts_.size());
  slots_[at] = number;
  texts_.push_back(Store(text));
  hashes_.push_back(hash);
  return number;
}

std::string_view StringTable::Store(std::string_view text) {
  if (text.empty()) return {};
  if (block_size_ - block_used_ < text.size()) {
    block_size_ = std::max(kBlockBytes, text.size());
    block_used_ = 0;
    blocks_.push_back(std::make_unique<char[]>(block_size_));
  }
  char* copy = blocks_.back().get() + block_used_;
  std::memcpy(copy, text.data(), text.size());
  block_used_ += text.size();
  return {copy, text.size()};
}

void StringTable::Grow() {
  slots_.assign(slots_.size() * 2, kNone);
  for (uint32_t number = 0; number < texts_.size(); ++number) {
    size_t at = hashes_[number] & (slots_.size() - 1);
    while (slots_[at] != kNone) at = (at + 1) & (slots_.size() - 1);
    slots_[at] = number;
  }
}

}  // namespace smeltr::analysis
