// Reads a session file: closed, still being written, or cut off anywhere.
// A file without a valid footer is scanned; damaged chunks are skipped and reported, the rest is read.
// Several threads may read through one Reader at once. A file that shrinks or changes while it is read
// costs events, reported as damage, never the process (no memory map).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "event/event.h"

namespace smeltr::session {

// What could not be read, in words for the user and figures for --json.
struct Damage {
  uint64_t skipped_bytes = 0;
  uint64_t skipped_chunks = 0;  // Chunks, or parts of a chunk, that were damaged.
  bool torn_tail = false;       // The file ends inside a chunk: the writer was cut off.
  bool no_footer = false;       // Never closed: still being written, or its writer died.
  uint64_t unknown_kind_events = 0;
  bool any() const { return skipped_bytes != 0 || skipped_chunks != 0 || torn_tail; }
};

struct KindCount {
  event::Api api = event::Api::kNone;
  event::Kind kind = event::Kind::kUnknown;
  uint64_t count = 0;
};

struct Summary {
  uint64_t event_count = 0;
  uint64_t file_bytes = 0;
  uint64_t min_ts_ns = 0;  // Both 0 for an empty session.
  uint64_t max_ts_ns = 0;
  std::vector<KindCount> counts;  // By kind, then api.
};

// Which events to read, and what of them. Every member narrows it; as it is, it means everything.
struct Selection {
  std::vector<event::Kind> kinds = {};  // Empty: all. kUnknown: the opaque ones.
  uint64_t begin_ns = 0;
  uint64_t end_ns = UINT64_MAX;  // The last nanosecond.
  std::optional<uint32_t> pid = std::nullopt;
  std::optional<event::QueueId> queue_id = std::nullopt;  // Leaves out kinds that have no queue_id.
  // What of the events to fill in, the rest stays zero: fields as kinds.def has them, "ops.gpu_ns" for those
  // of list elements, and "seq", "ts_ns", "pid", "tid" of the envelope. Empty: all.
  std::vector<std::string> fields = {};
};

// Events of one kind and interface that stand together in a chunk.
struct Batch {
  event::Kind kind = event::Kind::kUnknown;
  event::Api api = event::Api::kNone;
  std::span<const event::Envelope> envelopes;
  const void* rows =
      nullptr;  // As many of the kind's struct. Texts and lists in it live as long as the batch.

  // visit(const event::Envelope&, const E&) for each, where E is the kind's struct.
  template <typename E, typename F>
  void ForEach(F&& visit) const {
    const E* row = static_cast<const E*>(rows);
    for (const event::Envelope& envelope : envelopes) visit(envelope, *row++);
  }
};

// What reading has cost so far.
struct ReadStats {
  uint64_t chunk_count = 0;  // That any byte was read of.
  uint64_t block_count = 0;
  uint64_t column_count = 0;  // Decompressed.
  uint64_t read_bytes = 0;
};

class Reader {
 public:
  // kNotFound, kCorrupt (not a session file), kUnsupported (a newer format: says to upgrade).
  static Result<Reader> Open(const std::filesystem::path& file);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const Summary& summary() const;  // From chunk headers alone; no chunk is decompressed for it.
  Damage damage() const;           // Grows while chunks are read and found damaged.

  ReadStats stats() const;

  // Calls `visit` with the selected events, kind after kind within a chunk, so NOT in time order: order by
  // (ts_ns, seq) where order matters. Chunks without such events are not read, which the index alone tells
  // for kinds, times and most pids; columns that are not asked for are not decompressed. Kinds that the
  // writer did not know come as event::Opaque under kUnknown; kinds that only the writer knew are counted in
  // damage().unknown_kind_events and skipped.
  void Read(const Selection& selection, const std::function<void(const Batch&)>& visit) const;

  // The same with chunks read on `thread_count` threads at once, 0: one a core. Each chunk gets a `Part{}` of
  // its own; visit(Part&, const Batch&) is called on any thread, fold(Part&&) on the caller's in the order of
  // the file: the result does not depend on the number of threads. Neither may throw.
  template <typename Part, typename Visit, typename Fold>
  void ReadParallel(const Selection& selection, unsigned thread_count, Visit&& visit, Fold&& fold) const {
    std::vector<Part> parts(SlotsFor(thread_count));
    ReadInSlots(
        selection, thread_count, [&](size_t slot, const Batch& batch) { visit(parts[slot], batch); },
        [&](size_t slot) { fold(std::exchange(parts[slot], Part{})); });
  }

  // Each selected event by itself, of whatever kind; several times slower than batches.
  void ForEachSelected(const Selection& selection,
                       const std::function<void(const event::Event&)>& visit) const;
  void ForEach(const std::vector<event::Kind>& kinds,
               const std::function<void(const event::Event&)>& visit) const;

  // All of one kind; `rows` is an array of its struct, as long as the envelopes.
  void ForEachBatch(
      event::Kind kind,
      const std::function<void(std::span<const event::Envelope>, const void* rows)>& visit) const {
    Read({.kinds = {kind}}, [&](const Batch& batch) { visit(batch.envelopes, batch.rows); });
  }
  // The same, typed: visit(const event::Envelope&, const E&).
  template <typename E, typename F>
  void ForEachOf(F&& visit) const {
    static_assert(E::kKind != event::Kind::kUnknown, "opaque events come from Read()");
    Read({.kinds = {E::kKind}}, [&](const Batch& batch) { batch.ForEach<E>(visit); });
  }

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);

  // The chunks being read or waiting to be folded, at most so many at once: each has one of the slots.
  static size_t SlotsFor(unsigned thread_count);
  void ReadInSlots(const Selection& selection, unsigned thread_count,
                   const std::function<void(size_t slot, const Batch&)>& visit,
                   const std::function<void(size_t slot)>& done) const;

  std::unique_ptr<State> state_;
};

}  // namespace smeltr::session
