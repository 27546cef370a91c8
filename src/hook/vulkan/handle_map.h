// Vulkan handle -> our state of it. Look-ups take no lock and may run beside inserts and removals of other
// handles; a handle itself is looked up while it is alive, as the interface demands of the program anyway.
// A slot, once made, is used again but never freed before Clear().
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <type_traits>

namespace smeltr::hook::vulkan {

// Dispatchable handles are pointers; the others are, or are 64-bit numbers on 32-bit systems.
template <typename Handle>
uint64_t HandleKey(Handle handle) {
  if constexpr (std::is_pointer_v<Handle>) {
    return reinterpret_cast<uintptr_t>(handle);
  } else {
    return static_cast<uint64_t>(handle);
  }
}

// Constant-initialisable, and without a destructor, so that it may be a global.
template <typename T, size_t kBucketCount>
class HandleMap {
  static_assert((kBucketCount & (kBucketCount - 1)) == 0);

 public:
  constexpr HandleMap() = default;
  HandleMap(const HandleMap&) = delete;
  HandleMap& operator=(const HandleMap&) = delete;

  T* Find(uint64_t key) const {
    const Slot* slot = SlotOf(key);
    return slot != nullptr ? slot->value.load(std::memory_order_relaxed) : nullptr;
  }

  // Returns what stood there for the same key before, or nullptr. Without memory the entry is not made.
  T* Insert(uint64_t key, T* value) {
    const std::lock_guard lock(mutex_);
    if (Slot* slot = SlotOf(key)) return slot->value.exchange(value, std::memory_order_relaxed);
    Slot* slot = SlotOf(0, Bucket(key));
    if (slot != nullptr) {
      slot->value.store(value, std::memory_order_relaxed);
      slot->key.store(key, std::memory_order_release);
      return nullptr;
    }
    slot = new (std::nothrow) Slot{};
    if (slot == nullptr) return nullptr;
    std::atomic<Slot*>& bucket = buckets_[Bucket(key)];
    slot->value.store(value, std::memory_order_relaxed);
    slot->key.store(key, std::memory_order_relaxed);
    slot->next = bucket.load(std::memory_order_relaxed);
    bucket.store(slot, std::memory_order_release);
    return nullptr;
  }

  // Returns what stood there, or nullptr.
  T* Remove(uint64_t key) {
    const std::lock_guard lock(mutex_);
    Slot* slot = SlotOf(key);
    if (slot == nullptr) return nullptr;
    T* value = slot->value.load(std::memory_order_relaxed);
    slot->key.store(0, std::memory_order_release);
    return value;
  }

  // Calls `visit` for every value. No insert or removal meanwhile.
  template <typename Visit>
  void ForEach(Visit visit) const {
    for (const auto& bucket : buckets_) {
      for (const Slot* slot = bucket.load(std::memory_order_acquire); slot != nullptr; slot = slot->next) {
        if (slot->key.load(std::memory_order_acquire) != 0)
          visit(slot->value.load(std::memory_order_relaxed));
      }
    }
  }

  // Frees the slots. Nobody may use the map meanwhile.
  void Clear() {
    for (auto& bucket : buckets_) {
      for (Slot* slot = bucket.exchange(nullptr, std::memory_order_relaxed); slot != nullptr;) {
        Slot* next = slot->next;
        delete slot;
        slot = next;
      }
    }
  }

  // In a forked child, where a thread that no longer exists may have held the lock.
  void ResetLockAfterFork() { new (&mutex_) std::mutex; }

 private:
  struct Slot {
    std::atomic<uint64_t> key{0};  // 0 = free.
    std::atomic<T*> value{nullptr};
    Slot* next = nullptr;  // Set before the slot is reachable, constant from then on.
  };

  static size_t Bucket(uint64_t key) {
    // Handles are aligned pointers or small numbers; the low bits alone would crowd a few buckets.
    return static_cast<size_t>((key * 0x9E3779B97F4A7C15U) >> 40) & (kBucketCount - 1);
  }
  Slot* SlotOf(uint64_t key) const { return key == 0 ? nullptr : SlotOf(key, Bucket(key)); }
  Slot* SlotOf(uint64_t key, size_t bucket) const {
    Slot* slot = buckets_[bucket].load(std::memory_order_acquire);
    while (slot != nullptr && slot->key.load(std::memory_order_acquire) != key) slot = slot->next;
    return slot;
  }

  std::array<std::atomic<Slot*>, kBucketCount> buckets_{};
  std::mutex mutex_;
};

}  // namespace smeltr::hook::vulkan
