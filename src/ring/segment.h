// The file behind a ring: create and offer it, or map the one of another process.
//
// A process creates `<dir>/<pid>-<start_time_ticks>.ring` under a temporary name and renames it when the
// header is complete, so whoever lists the directory sees only rings that can be opened. A process that
// replaced itself by exec has a ring already: the next are `<pid>-<start_time_ticks>.1.ring`, `.2.ring` ...
// While the process lives, and unless it closed the descriptor, it holds a lock on the file (life_lock.h).
// No heap. Create and Map enter the kernel; nothing else here does.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

#include "base/fd.h"
#include "base/result.h"
#include "ring/layout.h"

namespace smeltr::ring {

struct ProcessIdentity {
  uint32_t pid = 0;
  uint64_t start_time_ticks = 0;
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

// Of the calling process, read from the system (not cached: right after fork too).
ProcessIdentity SelfIdentity();
// Whether exactly that process still runs (not a zombie, not another one with the same pid), as far as this
// process's PID namespace shows; Reader::owner_alive() looks further.
bool IsAlive(const ProcessIdentity& process);
// "123-4567", with which the names of a process's files in a ring directory begin.
Result<ProcessIdentity> ParseIdentity(std::string_view text);
// "123-4567.ring", "123-4567.1.ring" -> identity; an error for other names.
Result<ProcessIdentity> ParseRingFileName(std::string_view name);

struct SegmentOptions {
  uint32_t block_count = kDefaultBlockCount;
};

// The constant part of a header, from a copy that nobody else can write to, against the file's size.
Result<void> CheckHeader(const RingHeader& header, uint64_t file_bytes);

// A mapped ring file. Moving keeps the mapping; destruction unmaps, never deletes.
class Segment {
 public:
  Segment() = default;
  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;
  ~Segment();

  // For the traced process. The file has mode 0600. kNoSpace when the file system could not hold the
  // ring: a page it cannot give later would kill the program. kUnavailable when the process may not make
  // files of that size (RLIMIT_FSIZE).
  static Result<Segment> Create(const char* directory, const SegmentOptions& options);
  // For the daemon: checks owner, size and every offset of the header before it returns, and refuses
  // files that a shrinking truncate could make fault (the daemon re-checks the size before each drain).
  static Result<Segment> Map(const char* path);

  bool mapped() const { return !bytes_.empty(); }
  RingHeader& header() const { return *reinterpret_cast<RingHeader*>(bytes_.data()); }
  std::span<std::byte> bytes() const { return bytes_; }
  int fd() const { return fd_.get(); }
  // Gives mapping and descriptor up as they are: the traced process keeps both until it ends. The descriptor.
  [[nodiscard]] int Leak();

 private:
  std::span<std::byte> bytes_;
  Fd fd_;
};

}  // namespace smeltr::ring
