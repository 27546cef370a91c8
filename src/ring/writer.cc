#include "ring/writer.h"

#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstring>

namespace smeltr::ring {

constinit thread_local internal::ThreadBlock internal::t_block{};

namespace {

using internal::t_block;
using internal::ThreadBlock;

constexpr uint32_t kMaxInternedBytes = 1024;
constexpr uint32_t kMaxProbes = 16;
constexpr uint32_t kStringAlignment = 4;
// Runs the release of a thread's block when the thread ends. Not a C++ thread-local destructor: those
// are registered with the library that has them and need the C++ runtime.
pthread_key_t g_thread_end_key;
bool g_has_thread_end_key = false;
pthread_once_t g_thread_end_once = PTHREAD_ONCE_INIT;

void Close(ThreadBlock& block) {
  // Release pairs with the reader's acquire: whoever sees it closed sees all that was committed.
  if (block.header != nullptr) block.header->state.store(BlockState::kClosed, std::memory_order_release);
  block.generation = 0;
  block.header = nullptr;
  block.data = nullptr;
  block.used_bytes = 0;
}

void OnThreadEnd(void*) {
  Close(t_block);
  // The destructor of another key may write once more; then this one has to run again.
  t_block.released_at_end = false;
}

void MakeThreadEndKey() { g_has_thread_end_key = pthread_key_create(&g_thread_end_key, OnThreadEnd) == 0; }

std::byte* BytesOf(RingHeader* ring) { return reinterpret_cast<std::byte*>(ring); }

BlockHeader* BlocksOf(RingHeader* ring) {
  return reinterpret_cast<BlockHeader*>(BytesOf(ring) + sizeof(RingHeader));
}

// The index of a block that is now the caller's; `block_count` when none is free.
uint32_t ClaimBlock(RingHeader* ring, uint32_t block_count) {
  BlockHeader* blocks = BlocksOf(ring);
  uint32_t seen = ring->claim_hint.load(std::memory_order_relaxed);
  const auto hint = ClaimHint::Unpack(seen);
  for (uint32_t index = hint.index; index < block_count; ++index) {
    BlockState expected = BlockState::kFree;
    // Acquire pairs with the reader's release: it is done with the block's bytes.
    if (blocks[index].state.load(std::memory_order_relaxed) == BlockState::kFree &&
        blocks[index].state.compare_exchange_strong(expected, BlockState::kOwned, std::memory_order_acquire,
                                                    std::memory_order_relaxed)) {
      const ClaimHint next{.index = index + 1, .version = hint.version};
      ring->claim_hint.compare_exchange_strong(seen, next.Pack(), std::memory_order_relaxed);
      return index;
    }
  }
  const ClaimHint full{.index = block_count, .version = hint.version};
  ring->claim_hint.compare_exchange_strong(seen, full.Pack(), std::memory_order_relaxed);
  return block_count;
}

template <typename T>
T Load(const void* at) {
  T value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

// The last bytes of a text as one word, without a loop: names are short, and looked up in every scope.
// Texts of equal length differ here if they differ in their last 8 bytes. `size` is not 0.
uint64_t TailWord(const char* text, size_t size) {
  if (size >= 8) return Load<uint64_t>(text + size - 8);
  if (size >= 4) return uint64_t{Load<uint32_t>(text)} << 32 | Load<uint32_t>(text + size - 4);
  const auto byte = [text](size_t index) { return static_cast<uint64_t>(static_cast<uint8_t>(text[index])); };
  return byte(0) << 16 | byte(size / 2) << 8 | byte(size - 1);
}

uint32_t HashOf(std::string_view text) {
  constexpr uint64_t kMultiplier = 0x9E37'79B9'7F4A'7C15;
  uint64_t hash = text.size();
  const auto mix = [&hash](uint64_t word) {
    hash = (hash ^ word) * kMultiplier;
    hash ^= hash >> 32;
  };
  for (size_t at = 0; at + 8 < text.size(); at += 8) mix(Load<uint64_t>(text.data() + at));
  mix(TailWord(text.data(), text.size()));
  // The upper half of a product depends on every bit; slots are chosen by the lowest bits of this.
  return static_cast<uint32_t>(hash * kMultiplier >> 32);
}

bool Equal(const char* a, const char* b, size_t size) {
  for (size_t at = 0; at + 8 < size; at += 8) {
    if (Load<uint64_t>(a + at) != Load<uint64_t>(b + at)) return false;
  }
  return TailWord(a, size) == TailWord(b, size);
}

class StringTable {
 public:
  StringTable(RingHeader* ring, const Geometry& geometry)
      : ring_(ring),
        slots_(reinterpret_cast<std::atomic<uint64_t>*>(BytesOf(ring) + geometry.string_table_offset)),
        characters_(reinterpret_cast<std::byte*>(slots_ + kStringSlotCount)) {}

  uint32_t Intern(std::string_view text) {
    const uint32_t hash = HashOf(text);
    uint32_t added = 0;
    for (uint32_t probe = 0; probe < kMaxProbes; ++probe) {
      std::atomic<uint64_t>& slot = slots_[(hash + probe) % kStringSlotCount];
      // Acquire pairs with the release below: the characters behind the id are complete.
      uint64_t value = slot.load(std::memory_order_acquire);
      if (value == 0) {
        if (added == 0) added = Append(text);
        if (added == 0) return 0;
        const uint64_t mine = uint64_t{hash} << 32 | added;
        if (slot.compare_exchange_strong(value, mine, std::memory_order_acq_rel, std::memory_order_acquire)) {
          return added;
        }
      }
      if (value >> 32 == hash && IsAt(static_cast<uint32_t>(value), text))
        return static_cast<uint32_t>(value);
    }
    ring_->strings_inline.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }

 private:
  bool IsAt(uint32_t id, std::string_view text) const {
    const uint32_t offset = id - 1;
    if (offset > kStringBytes - sizeof(uint32_t) - kMaxInternedBytes) return false;
    return Load<uint32_t>(characters_ + offset) == text.size() &&
           Equal(reinterpret_cast<const char*>(characters_ + offset + sizeof(uint32_t)), text.data(),
                 text.size());
  }

  // Room is taken before it is filled: whoever dies in between leaves a hole, never half a string.
  uint32_t Append(std::string_view text) {
    const auto length = static_cast<uint32_t>(text.size());
    const uint64_t size =
        (sizeof(length) + text.size() + kStringAlignment - 1) / kStringAlignment * kStringAlignment;
    uint64_t offset = ring_->string_used_bytes.load(std::memory_order_relaxed);
    do {
      if (offset > kStringBytes - sizeof(length) - kMaxInternedBytes) {
        ring_->strings_inline.fetch_add(1, std::memory_order_relaxed);
        return 0;
      }
    } while (
        !ring_->string_used_bytes.compare_exchange_weak(offset, offset + size, std::memory_order_relaxed));
    std::memcpy(characters_ + offset, &length, sizeof(length));
    std::memcpy(characters_ + offset + sizeof(length), text.data(), text.size());
    return static_cast<uint32_t>(offset) + 1;
  }

  RingHeader* ring_;
  std::atomic<uint64_t>* slots_;
  std::byte* characters_;
};

}  // namespace

void Writer::Attach(RingHeader* ring, uint32_t generation) {
  pthread_once(&g_thread_end_once, MakeThreadEndKey);
  ring_ = ring;
  block_count_ = ring->block_count - kFatalBlockCount;
  generation_ = generation;
}

bool Writer::RenewBlock(ThreadBlock& block) {
  if (ring_ == nullptr) return false;
  if (block.generation == generation_) {
    if (block.used_bytes == 0) return false;  // The frame does not even fit an empty block.
    // Given back before another is looked for: if none is free, this one will be when it has been read.
    Close(block);
  }
  block.header = nullptr;
  block.generation = 0;
  const uint32_t index = ClaimBlock(ring_, block_count_);
  if (index == block_count_) return false;

  if (block.tid == 0) block.tid = static_cast<uint32_t>(::syscall(SYS_gettid));
  if (!block.released_at_end && g_has_thread_end_key) {
    block.released_at_end = pthread_setspecific(g_thread_end_key, &block) == 0;
  }
  BlockHeader& header = BlocksOf(ring_)[index];
  header.tid = block.tid;
  // Drawn after the claim: a reader that read next_order before it saw this block free will leave both
  // this block and any later one of the thread for its next turn.
  // Release pairs with the reader's acquire of next_order.
  header.order.store(ring_->next_order.fetch_add(1, std::memory_order_acq_rel) + 1,
                     std::memory_order_release);
  block.header = &header;
  block.data = BytesOf(ring_) + GeometryOf(block_count_ + kFatalBlockCount).blocks_offset +
               uint64_t{index} * kBlockBytes;
  block.used_bytes = 0;
  block.generation = generation_;
  return true;
}

uint32_t Writer::Intern(std::string_view text) {
  if (ring_ == nullptr || text.empty() || text.size() > kMaxInternedBytes) return 0;
  return StringTable(ring_, GeometryOf(block_count_ + kFatalBlockCount)).Intern(text);
}

void Writer::CountDropped(event::Kind kind, uint64_t count) {
  const auto number = static_cast<uint16_t>(kind);
  if (ring_ == nullptr || number >= event::kKindLimit) return;
  ring_->dropped[number].fetch_add(count, std::memory_order_relaxed);
}

void Writer::ReleaseThreadBlock() {
  if (t_block.generation == generation_) Close(t_block);
}

void Writer::ForgetThreadBlock() { t_block = ThreadBlock{}; }

void Writer::MarkClosed() {
  if (ring_ != nullptr) ring_->closed.store(1, std::memory_order_release);
}

}  // namespace smeltr::ring
