// Reads a session file: closed, still being written, or cut off anywhere.
// A file without a valid footer is scanned; damaged chunks are skipped and reported, the rest is read.
// Several threads may read through one Reader at once. A file that shrinks or changes while it is read
// costs events, reported as damage, never the process (no memory map).
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <memory>
#include <span>
#include <string>
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

class Reader {
 public:
  // kNotFound, kCorrupt (not a session file), kUnsupported (a newer format: says to upgrade).
  static Result<Reader> Open(const std::filesystem::path& file);
  Reader(Reader&&) noexcept;
  Reader& operator=(Reader&&) noexcept;
  ~Reader();

  const Summary& summary() const;  // From chunk headers alone; no chunk is decompressed for it.
  Damage damage() const;           // Grows while chunks are read and found damaged.

  // Calls `visit` for each event of the given kinds, or of all when none is given. Kind after kind within
  // a chunk, so NOT in time order: order by (ts_ns, seq) where order matters. Texts and lists of an event
  // are valid during the call. Chunks and columns of other kinds are not touched. Kinds that the writer
  // did not know come as event::Opaque (asked for by kUnknown); kinds that only the writer knew are
  // counted in damage().unknown_kind_events and skipped.
  void ForEach(const std::vector<event::Kind>& kinds,
               const std::function<void(const event::Event&)>& visit) const;

  // The same for one kind, typed and several times as fast: visit(const event::Envelope&, const E&).
  template <typename E, typename F>
  void ForEachOf(F&& visit) const {
    static_assert(E::kKind != event::Kind::kUnknown, "opaque events come from ForEach({kUnknown})");
    ForEachBatch(E::kKind, [&](std::span<const event::Envelope> envelopes, const void* rows) {
      const E* row = static_cast<const E*>(rows);
      for (const event::Envelope& envelope : envelopes) visit(envelope, *row++);
    });
  }

  // The same for a kind known only at run time: `rows` is an array of its struct, as long as the envelopes.
  void ForEachBatch(
      event::Kind kind,
      const std::function<void(std::span<const event::Envelope>, const void* rows)>& visit) const;

 private:
  struct State;
  explicit Reader(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace smeltr::session
