// The events of a session in numbered files: events.smlt, events-1.smlt, events-2.smlt ... With a size to
// stay below, old ones in the middle are deleted again: the first, which tells of devices, queues and
// processes, and the newest remain; each begins with the scopes that are open, told once more. Used like a
// Writer, and like it not thread-safe.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "session/open_scopes.h"
#include "session/writer.h"

namespace smeltr::session {

// "events.smlt", "events-1.smlt" ...
std::string SegmentName(uint32_t number);
// The numbers of the event files of `directory`, rising; with holes where some were deleted.
std::vector<uint32_t> ListSegments(const std::filesystem::path& directory);

struct SegmentedOptions {
  WriterOptions writer{};
  uint64_t max_bytes = 0;  // Of all files together; 0: one file, without a limit.
};
// The smallest limit that makes sense; smaller ones are raised to it.
inline constexpr uint64_t kMinSessionBytes = uint64_t{1} << 20;

class SegmentedWriter {
 public:
  // A new session's.
  static Result<SegmentedWriter> Create(const std::filesystem::path& directory,
                                        const SegmentedOptions& options);
  // Goes on behind what `directory` holds: in a file of its own, with the next number and the next seq. What
  // is there counts towards max_bytes.
  static Result<SegmentedWriter> Continue(const std::filesystem::path& directory,
                                          const SegmentedOptions& options);

  void Append(const event::Event& event);
  void FlushIfDue(uint64_t now_ns);
  Result<void> Flush();
  Result<void> Close();
  // Also of files that were completed since the last task, and of the names of new ones; see
  // Writer::SyncTask.
  std::function<Result<void>()> SyncTask();
  Result<void> Sync() { return SyncTask()(); }
  void FlushIfIdle() { writer_.FlushIfIdle(); }

  uint64_t next_seq() const { return writer_.next_seq(); }
  // Of this writer: all its files together, the deleted ones included.
  const WriterStats& stats();
  // As stats(), without the counts by kind.
  const WriterStats& totals();
  // Of all files there are, earlier writers' too.
  uint64_t file_bytes() const;

 private:
  struct Segment {
    uint32_t number = 0;
    uint64_t bytes = 0;
  };
  SegmentedWriter(std::filesystem::path directory, SegmentedOptions options, Writer writer, uint32_t number)
      : directory_(std::move(directory)),
        options_(std::move(options)),
        writer_(std::move(writer)),
        number_(number) {}
  uint64_t SegmentLimit() const;
  void KeepBelowLimit();
  void StartNext();
  void Trim(uint64_t room_bytes);
  void Delete(const Segment& segment);
  static void Add(WriterStats& sum, const WriterStats& part, bool kinds);

  std::filesystem::path directory_;
  SegmentedOptions options_;
  Writer writer_;
  uint32_t number_;
  OpenScopes scopes_;           // Only where files may be deleted.
  std::deque<Segment> closed_;  // Rising.
  uint64_t closed_bytes_ = 0;
  uint64_t checked_bytes_ = 0;  // Of the current file when the limit was last looked at.
  WriterStats closed_stats_;    // Of this writer's closed files.
  WriterStats sum_;             // What stats() last gave.
  std::vector<std::function<Result<void>()>> unsynced_;
  bool names_unsynced_ = true;  // Files were made since the last task.
};

}  // namespace smeltr::session
