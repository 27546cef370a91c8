#include "ring/reader.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "event/frame.h"
#include "ring/life_lock.h"

namespace smeltr::ring {
namespace {

// The widest honest list is a List<Text>: 4 bytes each in a frame, sizeof(Text) each when decoded.
constexpr size_t kListArenaBytes = kBlockBytes / sizeof(uint32_t) * sizeof(event::Text) + 4096;
// All texts of one event. Larger than any honest event needs: they come from a table of this size.
constexpr size_t kTextArenaBytes = kStringBytes;
// Nobody can keep the reader busy by changing the hint under it.
constexpr unsigned kHintAttempts = 64;

// Copies texts out of the ring's table, so that nobody can change them while they are used.
class StringCopier : public event::StringSource {
 public:
  explicit StringCopier(const std::byte* characters)
      : characters_(characters), storage_(std::make_unique_for_overwrite<char[]>(kTextArenaBytes)) {}

  void Reset() {
    used_ = 0;
    overflowed_ = false;
  }
  bool overflowed() const { return overflowed_; }

  std::string_view Lookup(uint32_t id) override {
    const uint32_t offset = id - 1;
    uint32_t length;
    if (id == 0 || offset > kStringBytes - sizeof(length)) return {};
    std::memcpy(&length, characters_ + offset, sizeof(length));
    if (length > event::kMaxTextBytes || length > kStringBytes - sizeof(length) - offset) return {};
    if (length > kTextArenaBytes - used_) {
      overflowed_ = true;
      return {};
    }
    char* copy = storage_.get() + used_;
    std::memcpy(copy, characters_ + offset + sizeof(length), length);
    used_ += length;
    return {copy, length};
  }

 private:
  const std::byte* characters_;
  std::unique_ptr<char[]> storage_;
  size_t used_ = 0;
  bool overflowed_ = false;
};

// A block as one look at the ring saw it.
struct Pending {
  uint64_t order;
  uint32_t index;
  bool closed;
  uint32_t committed;
};

bool IsPosition(uint32_t value) { return value <= kBlockBytes && value % kFrameAlignment == 0; }

}  // namespace

struct Reader::State {
  explicit State(Segment ring_segment)
      : segment(std::move(ring_segment)),
        usable(segment.mapped() && Validate()),
        strings(usable ? segment.bytes().data() + GeometryOf(block_count).string_table_offset +
                             uint64_t{kStringSlotCount} * sizeof(uint64_t)
                       : nullptr) {}

  bool Validate();
  bool StillWhole() const;
  BlockHeader& block(uint32_t index) const {
    return reinterpret_cast<BlockHeader*>(segment.bytes().data() + sizeof(RingHeader))[index];
  }
  void CollectPending();
  bool DrainBlock(const Pending& pending, uint64_t max_events,
                  const std::function<void(const event::Event&)>& sink, DrainResult& result);
  bool Deliver(std::span<const std::byte> frame, uint32_t tid,
               const std::function<void(const event::Event&)>& sink);
  void Free(uint32_t index);

  Segment segment;
  uint32_t block_count = 0;
  ProcessIdentity process;
  uint64_t created_ns = 0;
  bool usable;
  bool reported_unusable = false;
  StringCopier strings;
  std::vector<Pending> pending;
  std::unique_ptr<std::byte[]> block_copy = std::make_unique_for_overwrite<std::byte[]>(kBlockBytes);
  std::unique_ptr<std::byte[]> list_storage = std::make_unique_for_overwrite<std::byte[]>(kListArenaBytes);
};

bool Reader::State::Validate() {
  // A copy: what was checked must be what is used.
  alignas(RingHeader) std::array<std::byte, sizeof(RingHeader)> copy;
  std::memcpy(copy.data(), segment.bytes().data(), copy.size());
  const auto& header = *reinterpret_cast<const RingHeader*>(copy.data());
  block_count = header.block_count;
  process = {.pid = header.pid, .start_time_ticks = header.start_time_ticks};
  created_ns = header.created_ns;
  return CheckHeader(header, segment.bytes().size()).has_value() && StillWhole();
}

bool Reader::State::StillWhole() const {
  struct stat info;
  return ::fstat(segment.fd(), &info) == 0 && static_cast<uint64_t>(info.st_size) >= segment.bytes().size();
}

// All blocks with a life of their own, oldest first, each with what was committed. Blocks are read newest
// first: then whatever an older block of the same thread had before the newer one got its first event is
// seen too, and a thread's events cannot overtake each other.
void Reader::State::CollectPending() {
  pending.clear();
  // Read before the blocks: a block claimed after this has a greater order and waits for the next turn.
  // Otherwise a thread could fill a block that was passed as free, and its next one would come first.
  const uint64_t newest = segment.header().next_order.load(std::memory_order_acquire);
  for (uint32_t index = 0; index < block_count; ++index) {
    const BlockState state = block(index).state.load(std::memory_order_acquire);
    if (state != BlockState::kOwned && state != BlockState::kClosed) continue;
    const uint64_t order = block(index).order.load(std::memory_order_acquire);
    if (order == 0 || order > newest) continue;
    pending.push_back({.order = order, .index = index, .closed = false, .committed = 0});
  }
  std::ranges::sort(pending, {}, &Pending::order);
  for (auto entry = pending.rbegin(); entry != pending.rend(); ++entry) {
    // The state first: once closed, `committed` is final.
    entry->closed = block(entry->index).state.load(std::memory_order_acquire) == BlockState::kClosed;
    entry->committed = block(entry->index).committed.load(std::memory_order_acquire);
  }
}

// False when the limit was reached before the end of what is pending.
bool Reader::State::DrainBlock(const Pending& entry, uint64_t max_events,
                               const std::function<void(const event::Event&)>& sink, DrainResult& result) {
  BlockHeader& header = block(entry.index);
  const uint32_t consumed = header.consumed.load(std::memory_order_relaxed);
  const bool sane = IsPosition(consumed) && IsPosition(entry.committed);
  if (sane && consumed < entry.committed) {
    const uint32_t tid = header.tid;
    const std::byte* bytes =
        segment.bytes().data() + GeometryOf(block_count).blocks_offset + uint64_t{entry.index} * kBlockBytes;
    const std::span<std::byte> copy(block_copy.get(), entry.committed - consumed);
    std::memcpy(copy.data(), bytes + consumed, copy.size());
    size_t position = 0;
    while (position < copy.size() && result.event_count + result.corrupt_frames < max_events) {
      uint32_t size = 0;
      if (copy.size() - position >= sizeof(event::FrameHeader)) {
        std::memcpy(&size, copy.data() + position, sizeof(size));
      }
      if (size < sizeof(event::FrameHeader) || size > copy.size() - position) {
        ++result.corrupt_frames;  // Where the next frame starts is not known.
        position = copy.size();
        break;
      }
      ++(Deliver(copy.subspan(position, size), tid, sink) ? result.event_count : result.corrupt_frames);
      position += (size_t{size} + kFrameAlignment - 1) / kFrameAlignment * kFrameAlignment;
    }
    header.consumed.store(consumed + static_cast<uint32_t>(position), std::memory_order_relaxed);
    if (position < copy.size()) return false;
  }
  if (entry.closed) {
    if (!sane) ++result.corrupt_frames;
    Free(entry.index);
  }
  return true;
}

bool Reader::State::Deliver(std::span<const std::byte> frame, uint32_t tid,
                            const std::function<void(const event::Event&)>& sink) {
  strings.Reset();
  event::DecodeArena lists({list_storage.get(), kListArenaBytes});
  Result<event::Event> decoded = event::DecodeFrame(frame, strings, lists);
  if (!decoded.has_value() || strings.overflowed()) return false;
  decoded->envelope.pid = process.pid;
  decoded->envelope.tid = tid;
  sink(*decoded);
  return true;
}

void Reader::State::Free(uint32_t index) {
  BlockHeader& header = block(index);
  header.order.store(0, std::memory_order_relaxed);
  header.committed.store(0, std::memory_order_relaxed);
  header.consumed.store(0, std::memory_order_relaxed);
  // Release pairs with the claimer's acquire: all of the above, and our reads of the bytes, come before.
  header.state.store(BlockState::kFree, std::memory_order_release);

  std::atomic<uint32_t>& hint = segment.header().claim_hint;
  uint32_t seen = hint.load(std::memory_order_relaxed);
  for (unsigned attempt = 0; attempt < kHintAttempts; ++attempt) {
    const ClaimHint before = ClaimHint::Unpack(seen);
    const ClaimHint after{.index = std::min(before.index, index), .version = before.version + 1};
    if (hint.compare_exchange_weak(seen, after.Pack(), std::memory_order_relaxed)) break;
  }
}

Reader::Reader(Segment segment) : state_(std::make_unique<State>(std::move(segment))) {}
Reader::~Reader() = default;
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;

DrainResult Reader::Drain(uint64_t max_events, const std::function<void(const event::Event&)>& sink) {
  DrainResult result;
  if (!state_->usable || !state_->StillWhole()) {
    state_->usable = false;
    if (!std::exchange(state_->reported_unusable, true)) result.corrupt_frames = 1;
    return result;
  }
  state_->CollectPending();
  for (const Pending& entry : state_->pending) {
    if (!state_->DrainBlock(entry, max_events, sink, result)) {
      result.more = true;
      break;
    }
  }
  return result;
}

std::vector<DroppedCount> Reader::TakeDropped() {
  std::vector<DroppedCount> counts;
  if (!state_->usable || !state_->StillWhole()) return counts;
  RingHeader& header = state_->segment.header();
  for (size_t kind = 0; kind < event::kKindLimit; ++kind) {
    const uint64_t total = header.dropped[kind].load(std::memory_order_relaxed);
    const uint64_t reported = header.dropped_reported[kind].load(std::memory_order_relaxed);
    if (total <= reported) continue;
    header.dropped_reported[kind].store(total, std::memory_order_relaxed);
    counts.push_back({.kind = static_cast<event::Kind>(kind), .count = total - reported});
  }
  return counts;
}

ProcessIdentity Reader::process() const { return state_->process; }

bool Reader::owner_alive() const { return IsAlive(state_->process) || IsLifeLocked(state_->segment.fd()); }

bool Reader::life_locked() const { return IsLifeLocked(state_->segment.fd()); }

uint64_t Reader::created_ns() const { return state_->created_ns; }

bool Reader::closed() const {
  return !state_->usable || !state_->StillWhole() ||
         state_->segment.header().closed.load(std::memory_order_acquire) != 0;
}

bool Reader::empty() const {
  if (!state_->usable || !state_->StillWhole()) return true;
  state_->CollectPending();
  return std::ranges::all_of(state_->pending, [this](const Pending& entry) {
    const uint32_t consumed = state_->block(entry.index).consumed.load(std::memory_order_relaxed);
    return !IsPosition(consumed) || !IsPosition(entry.committed) || consumed >= entry.committed;
  });
}

}  // namespace smeltr::ring
