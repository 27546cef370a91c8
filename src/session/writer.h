// Appends events to one session file; readers may follow along.
// Not thread-safe: owned by the drain thread. Memory is bounded by the chunk size, whatever the rate.
//
// Events are gathered into chunks (columns by kind, zstd, checksum; format.h, docs/formats.md) that are
// sealed by size, or by age at the next FlushIfDue(). When the disk refuses a chunk its events are
// counted as lost and writing goes on with the next chunk: nothing here stops for a full disk.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>

#include "base/result.h"
#include "event/event.h"
#include "util/file.h"

namespace smeltr::session {

// A chunk as it goes to the file: readable alone (chunk_file.h puts such chunks together again).
struct SealedChunk {
  std::span<const std::byte> bytes;  // Valid during the call.
  uint64_t min_ts_ns = 0;
  uint64_t max_ts_ns = 0;
  uint64_t event_count = 0;
};

struct WriterOptions {
  uint64_t flush_after_ns = 250'000'000;  // Age at which FlushIfDue seals; the promise is 500 ms on disk.
  size_t chunk_raw_bytes = 1 << 20;       // Sealed when the encoded columns would reach this.
  int zstd_level = 1;
  uint64_t first_seq = 1;  // That of the first event: files of one session go on counting.
  // Sees every chunk as it is sealed, also one that the disk then refuses.
  std::function<void(const SealedChunk&)> on_sealed = nullptr;
};

class AppendFile;

struct WriterStats {
  uint64_t event_count = 0;  // Appended, the lost ones included.
  uint64_t lost_count = 0;   // In chunks the disk refused.
  uint64_t file_bytes = 0;
  std::map<std::string, uint64_t> counts_by_kind;  // Full kind names; adds up to event_count.
  uint64_t trimmed_event_count = 0;  // Deleted again to stay below a size (segmented_writer.h); once stored.
  uint64_t trimmed_file_count = 0;
};

class Writer {
 public:
  // Creates the file (0600); kAlreadyExists if it is there: a torn file is never continued.
  static Result<Writer> Create(const std::filesystem::path& file, const WriterOptions& options);
  // The same on another kind of file, an empty one.
  static Writer CreateOn(std::unique_ptr<AppendFile> file, const WriterOptions& options);
  Writer(Writer&&) noexcept;
  Writer& operator=(Writer&&) noexcept;
  ~Writer();

  // Gives the event its seq. Texts and lists are copied: they may die after the call. Texts are cut at
  // event::kMaxTextBytes, lists at kMaxListElements (format.h).
  void Append(const event::Event& event);
  // Seals what is older than flush_after_ns at `now_ns`; call every 100 ms or so.
  void FlushIfDue(uint64_t now_ns);
  // Seals everything now. The error is that of the disk, for the log; the loss is in stats() already.
  Result<void> Flush();
  // Flush, footer, fdatasync where asked for. Call once, at the end.
  Result<void> Close(FileSync sync = FileSync::kDisk);
  // fdatasync of what was sealed so far, as a call that may be made on another thread and after the writer's
  // end: it can take as long as the disk likes.
  std::function<Result<void>()> SyncTask() const;
  Result<void> Sync() const { return SyncTask()(); }
  // For a dying process, from a signal handler on the writer's own thread: seals what is pending, unless the
  // signal came in the middle of an append.
  void FlushIfIdle();

  uint64_t next_seq() const;
  const WriterStats& stats() const;
  // As stats(), without the counts by kind: those cost a pass over all kinds.
  const WriterStats& totals() const;

 private:
  struct State;
  explicit Writer(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace smeltr::session
