#include "session/reader.h"

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "base/fd.h"
#include "event/names.h"
#include "session/chunk_pass.h"
#include "session/index.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

bool IsKnown(const BlockEntry& block) {
  return block.opaque || event::FindKind(static_cast<event::Kind>(block.kind_number)) != nullptr;
}

Summary Summarise(const Index& index) {
  Summary summary;
  summary.file_bytes = index.file_bytes;
  summary.min_ts_ns = UINT64_MAX;
  std::map<std::pair<uint16_t, event::Api>, uint64_t> counts;
  for (const StoredChunk& chunk : index.chunks) {
    if (chunk.header.event_count == 0) continue;
    summary.event_count += chunk.header.event_count;
    summary.min_ts_ns = std::min(summary.min_ts_ns, chunk.header.min_ts_ns);
    summary.max_ts_ns = std::max(summary.max_ts_ns, chunk.header.max_ts_ns);
    for (const BlockEntry& block : chunk.header.blocks) {
      counts[{block.kind_number, block.api}] += block.event_count;
    }
  }
  if (summary.event_count == 0) summary.min_ts_ns = 0;
  for (const auto& [key, count] : counts) {
    summary.counts.push_back({key.second, static_cast<event::Kind>(key.first), count});
  }
  return summary;
}

uint64_t UnknownKindEvents(const Index& index) {
  uint64_t count = 0;
  for (const StoredChunk& chunk : index.chunks) {
    for (const BlockEntry& block : chunk.header.blocks) {
      if (block.opaque || !IsKnown(block)) count += block.event_count;
    }
  }
  return count;
}

// One batch as events, for each kind; indexed by kind number.
using VisitEvents = void (*)(const Batch& batch, event::Event& event,
                             const std::function<void(const event::Event&)>& visit);

template <typename E>
void VisitRows(const Batch& batch, event::Event& event,
               const std::function<void(const event::Event&)>& visit) {
  batch.ForEach<E>([&](const event::Envelope& envelope, const E& row) {
    event.envelope = envelope;
    event.payload = row;
    visit(event);
  });
}

VisitEvents FindVisitEvents(event::Kind kind) {
  switch (kind) {
#define KIND(number, name, source, naming) \
  case event::Kind::k##name:               \
    return &VisitRows<event::name>;
#define END_KIND(name)
#define FIELD(type, name)
#include "event/kinds.def"
    case event::Kind::kUnknown:
      break;
  }
  return &VisitRows<event::Opaque>;
}

}  // namespace

struct Reader::State {
  Fd fd;
  Index index;
  Summary summary;
  mutable std::mutex mutex;
  mutable Damage damage;                               // Guarded by mutex.
  mutable ReadStats stats;                             // Guarded by mutex.
  mutable std::set<std::pair<size_t, size_t>> broken;  // Chunk and block already counted; guarded by mutex.

  void ReadChunk(size_t number, ChunkPass& pass, const ChunkPass::Visit& visit) const;
  void NoteDamage(size_t chunk, size_t block, uint64_t bytes) const;
  void NoteStats(const ReadStats& of_pass) const;
};

void Reader::State::ReadChunk(size_t number, ChunkPass& pass, const ChunkPass::Visit& visit) const {
  const StoredChunk& chunk = index.chunks[number];
  pass.Read(chunk, visit,
            [&](size_t block) { NoteDamage(number, block, chunk.header.blocks[block].stored_bytes); });
}

void Reader::State::NoteDamage(size_t chunk, size_t block, uint64_t bytes) const {
  const std::lock_guard lock(mutex);
  if (!broken.insert({chunk, block}).second) return;
  ++damage.skipped_chunks;
  damage.skipped_bytes += bytes;
}

void Reader::State::NoteStats(const ReadStats& of_pass) const {
  const std::lock_guard lock(mutex);
  stats.chunk_count += of_pass.chunk_count;
  stats.block_count += of_pass.block_count;
  stats.column_count += of_pass.column_count;
  stats.read_bytes += of_pass.read_bytes;
}

Result<Reader> Reader::Open(const std::filesystem::path& file) {
  auto state = std::make_unique<State>();
  SMELTR_ASSIGN_OR_RETURN(state->fd, OpenRegularFile(file));
  SMELTR_ASSIGN_OR_RETURN(state->index, LoadIndex(state->fd));
  state->summary = Summarise(state->index);
  state->damage = state->index.damage;
  state->damage.unknown_kind_events = UnknownKindEvents(state->index);
  return Reader(std::move(state));
}

Reader::Reader(std::unique_ptr<State> state) : state_(std::move(state)) {}
Reader::Reader(Reader&&) noexcept = default;
Reader& Reader::operator=(Reader&&) noexcept = default;
Reader::~Reader() = default;

const Summary& Reader::summary() const { return state_->summary; }

Damage Reader::damage() const {
  const std::lock_guard lock(state_->mutex);
  return state_->damage;
}

ReadStats Reader::stats() const {
  const std::lock_guard lock(state_->mutex);
  return state_->stats;
}

void Reader::Read(const Selection& selection, const std::function<void(const Batch&)>& visit) const {
  ChunkPass pass(state_->fd, selection);
  for (size_t i = 0; i < state_->index.chunks.size(); ++i) state_->ReadChunk(i, pass, visit);
  state_->NoteStats(pass.stats());
}

void Reader::ForEachSelected(const Selection& selection,
                             const std::function<void(const event::Event&)>& visit) const {
  event::Event event;
  Read(selection, [&](const Batch& batch) { FindVisitEvents(batch.kind)(batch, event, visit); });
}

void Reader::ForEach(const std::vector<event::Kind>& kinds,
                     const std::function<void(const event::Event&)>& visit) const {
  ForEachSelected({.kinds = kinds}, visit);
}

namespace {

unsigned ThreadsFor(unsigned thread_count) {
  return thread_count != 0 ? thread_count : std::max(1U, std::thread::hardware_concurrency());
}

// Hands out the positions of a list to threads, and back to the one that folds, in their order. No thread is
// more than `slot_count` positions ahead of it.
class Turns {
 public:
  Turns(size_t count, size_t slot_count) : count_(count), finished_(slot_count) {}

  std::optional<size_t> Take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return next_ == count_ || next_ < folded_ + finished_.size(); });
    return next_ == count_ ? std::nullopt : std::optional(next_++);
  }
  void Finish(size_t position) {
    const std::lock_guard lock(mutex_);
    finished_[position % finished_.size()] = true;
    changed_.notify_all();
  }
  void WaitFor(size_t position) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return finished_[position % finished_.size()]; });
  }
  void Fold(size_t position) {
    const std::lock_guard lock(mutex_);
    finished_[position % finished_.size()] = false;
    ++folded_;
    changed_.notify_all();
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t count_;
  size_t next_ = 0;
  size_t folded_ = 0;
  std::vector<bool> finished_;
};

}  // namespace

size_t Reader::SlotsFor(unsigned thread_count) { return size_t{2} * ThreadsFor(thread_count); }

void Reader::ReadInSlots(const Selection& selection, unsigned thread_count,
                         const std::function<void(size_t slot, const Batch&)>& visit,
                         const std::function<void(size_t slot)>& done) const {
  const std::vector<StoredChunk>& chunks = state_->index.chunks;
  std::vector<size_t> numbers;
  for (size_t i = 0; i < chunks.size(); ++i) {
    if (MayHaveSelected(chunks[i].header, selection)) numbers.push_back(i);
  }
  const size_t slot_count = SlotsFor(thread_count);
  Turns turns(numbers.size(), slot_count);
  const auto work = [&] {
    ChunkPass pass(state_->fd, selection);
    while (const std::optional<size_t> position = turns.Take()) {
      const size_t slot = *position % slot_count;
      state_->ReadChunk(numbers[*position], pass, [&](const Batch& batch) { visit(slot, batch); });
      turns.Finish(*position);
    }
    state_->NoteStats(pass.stats());
  };
  std::vector<std::jthread> threads;
  const size_t useful = std::min<size_t>(ThreadsFor(thread_count), numbers.size());
  threads.reserve(useful);
  for (size_t i = 0; i < useful; ++i) threads.emplace_back(work);
  for (size_t position = 0; position < numbers.size(); ++position) {
    turns.WaitFor(position);
    done(position % slot_count);
    turns.Fold(position);
  }
}

}  // namespace smeltr::session
