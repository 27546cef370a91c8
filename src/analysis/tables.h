// Compact tables for sessions of tens of millions of events: interned text, keys and serial ids to dense
// numbers, and a vector that grows without moving. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace smeltr::analysis {

// "No such entry" for every dense number of the analysis.
inline constexpr uint32_t kNone = 0xFFFF'FFFF;

// 64-bit key -> dense number, by open addressing with linear probing.
class KeyIndex {
 public:
  KeyIndex() : slots_(16) {}

  // The value of `key`, added as kNone when it is not there; valid until the next call.
  uint32_t& operator[](uint64_t key) {
    if (used_ * 2 >= slots_.size()) Grow();
    Slot& slot = slots_[Find(key)];
    if (!slot.used) {
      slot = {key, kNone, true};
      ++used_;
    }
    return slot.value;
  }
  uint32_t Lookup(uint64_t key) const {
    const Slot& slot = slots_[Find(key)];
    return slot.used ? slot.value : kNone;
  }

 private:
  struct Slot {
    uint64_t key = 0;
    uint32_t value = kNone;
    bool used = false;
  };

  size_t Find(uint64_t key) const {
    const uint64_t mixed = (key ^ (key >> 29)) * 0x9E37'79B9'7F4A'7C15U;
    size_t at = static_cast<size_t>(mixed >> 20) & (slots_.size() - 1);
    while (slots_[at].used && slots_[at].key != key) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void Grow() {
    std::vector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.used) slots_[Find(slot.key)] = slot;
    }
  }

  std::vector<Slot> slots_;
  size_t used_ = 0;
};

// Recorder-issued serials of many processes -> dense numbers. Serials of one process are nearly dense, so
// they are kept in pages and the last page is remembered: no hashing for neighbours.
class SerialIndex {
 public:
  // The value of (process, serial), kNone when new: the caller sets it before the next call.
  uint32_t& At(uint32_t process, uint64_t serial) {
    Page* page = Find(process, serial / kPageSize);
    if (page == nullptr) page = AddPage(process, serial / kPageSize);
    return page->values[serial % kPageSize];
  }
  // kNone when it was never added. Not for use by several threads at once.
  uint32_t Lookup(uint32_t process, uint64_t serial) const {
    const Page* page = Find(process, serial / kPageSize);
    return page == nullptr ? kNone : page->values[serial % kPageSize];
  }

 private:
  static constexpr size_t kPageSize = 256;
  struct Page {
    Page() { std::memset(values, 0xFF, sizeof(values)); }
    uint32_t process = 0;
    uint64_t number = 0;
    uint32_t next_same_key = kNone;
    uint32_t values[kPageSize];
  };

  // Several (process, page) pairs may share a key: their pages are chained.
  static uint64_t KeyOf(uint32_t process, uint64_t number) {
    return number + (static_cast<uint64_t>(process) << 44);
  }
  Page* Find(uint32_t process, uint64_t number) const {
    if (last_ != nullptr && last_->process == process && last_->number == number) return last_;
    for (uint32_t at = index_.Lookup(KeyOf(process, number)); at != kNone; at = pages_[at]->next_same_key) {
      if (pages_[at]->process == process && pages_[at]->number == number) return last_ = pages_[at].get();
    }
    return nullptr;
  }
  Page* AddPage(uint32_t process, uint64_t number) {
    uint32_t& first = index_[KeyOf(process, number)];
    auto page = std::make_unique<Page>();
    page->process = process;
    page->number = number;
    page->next_same_key = first;
    first = static_cast<uint32_t>(pages_.size());
    pages_.push_back(std::move(page));
    return last_ = pages_.back().get();
  }

  KeyIndex index_;
  std::vector<std::unique_ptr<Page>> pages_;
  mutable Page* last_ = nullptr;
};

// Each distinct text once; number 0 is the empty one. Views stay valid as long as the table.
class StringTable {
 public:
  StringTable();
  uint32_t Intern(std::string_view text);
  std::string_view operator[](uint32_t number) const { return texts_[number]; }
  size_t size() const { return texts_.size(); }

 private:
  std::string_view Store(std::string_view text);
  void Grow();

  std::vector<std::string_view> texts_;
  std::vector<uint32_t> hashes_;  // Of texts_, to grow and compare without touching the characters.
  std::vector<uint32_t> slots_;
  std::vector<std::unique_ptr<char[]>> blocks_;
  size_t block_used_ = 0;
  size_t block_size_ = 0;
};

// A vector of plain records in blocks: growing neither moves records nor doubles memory for a moment.
template <typename T>
class BlockVector {
 public:
  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  T& operator[](size_t i) { return blocks_[i / kBlock][i % kBlock]; }
  const T& operator[](size_t i) const { return blocks_[i / kBlock][i % kBlock]; }
  T& Append() {
    if (size_ == blocks_.size() * kBlock) blocks_.push_back(std::make_unique<T[]>(kBlock));
    return (*this)[size_++];
  }

 private:
  static constexpr size_t kBlock = 4096;
  std::vector<std::unique_ptr<T[]>> blocks_;
  size_t size_ = 0;
};

}  // namespace smeltr::analysis
