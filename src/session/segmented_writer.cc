#include "session/segmented_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <system_error>
#include <utility>

#include "session/append_file.h"
#include "session/index.h"
#include "session/store.h"
#include "util/log.h"

namespace smeltr::session {
namespace {

constexpr std::string_view kPrefix = "events-";
constexpr std::string_view kSuffix = ".smlt";
constexpr uint32_t kMaxNumber = 1'000'000'000;
// Of max_bytes: a segment, and the first one, which stays for good.
constexpr uint64_t kSegmentShare = 8;
constexpr uint64_t kFirstShare = 16;
constexpr uint64_t kChunkShare = 64;
constexpr uint64_t kScopesShare = 8;  // Of a segment.
constexpr size_t kSmallestChunk = size_t{32} << 10;
constexpr size_t kMaxUnsynced = 16;

std::optional<uint32_t> NumberOf(std::string_view name) {
  if (name == kEventsFile) return 0;
  if (!name.starts_with(kPrefix) || !name.ends_with(kSuffix)) return std::nullopt;
  const std::string_view digits = name.substr(kPrefix.size(), name.size() - kPrefix.size() - kSuffix.size());
  uint32_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  const bool whole = error == std::errc{} && end == digits.data() + digits.size();
  if (!whole || digits.front() == '0' || number > kMaxNumber) return std::nullopt;
  return number;
}

// What the chunk headers of one file tell.
struct Contents {
  uint64_t event_count = 0;
  uint64_t next_seq = 0;
};
Contents ContentsOf(const std::filesystem::path& file) {
  Contents contents;
  const Result<Fd> fd = OpenRegularFile(file);
  if (!fd) return contents;
  const Result<Index> index = LoadIndex(*fd);
  if (!index) return contents;
  for (const StoredChunk& chunk : index->chunks) {
    contents.event_count += chunk.header.event_count;
    contents.next_seq = std::max(contents.next_seq, chunk.header.first_seq + chunk.header.event_count);
  }
  return contents;
}

SegmentedOptions Sensible(SegmentedOptions options) {
  if (options.max_bytes == 0) return options;
  options.max_bytes = std::max(options.max_bytes, kMinSessionBytes);
  // A chunk is what a segment overshoots by at most.
  const size_t chunk = std::max<size_t>(options.max_bytes / kChunkShare, kSmallestChunk);
  options.writer.chunk_raw_bytes = std::min(options.writer.chunk_raw_bytes, chunk);
  return options;
}

}  // namespace

std::string SegmentName(uint32_t number) {
  return number == 0 ? std::string(kEventsFile) : fmt::format("{}{}{}", kPrefix, number, kSuffix);
}

std::vector<uint32_t> ListSegments(const std::filesystem::path& directory) {
  std::vector<uint32_t> numbers;
  std::error_code error;
  std::filesystem::directory_iterator entry(directory, error);
  for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
    if (const std::optional<uint32_t> number = NumberOf(entry->path().filename().native())) {
      numbers.push_back(*number);
    }
  }
  std::ranges::sort(numbers);
  return numbers;
}

Result<SegmentedWriter> SegmentedWriter::Create(const std::filesystem::path& directory,
                                                const SegmentedOptions& options) {
  SegmentedOptions sensible = Sensible(options);
  SMELTR_ASSIGN_OR_RETURN(Writer writer, Writer::Create(directory / kEventsFile, sensible.writer));
  return SegmentedWriter(directory, std::move(sensible), std::move(writer), 0);
}

Result<SegmentedWriter> SegmentedWriter::Continue(const std::filesystem::path& directory,
                                                  const SegmentedOptions& options) {
  SegmentedOptions sensible = Sensible(options);
  const std::vector<uint32_t> numbers = ListSegments(directory);
  std::deque<Segment> there;
  uint64_t there_bytes = 0;
  for (const uint32_t number : numbers) {
    std::error_code error;
    const uintmax_t bytes = std::filesystem::file_size(directory / SegmentName(number), error);
    there.push_back({.number = number, .bytes = error ? 0 : bytes});
    there_bytes += there.back().bytes;
  }
  // The last file may hold nothing that can be read.
  for (auto number = numbers.rbegin(); number != numbers.rend(); ++number) {
    const uint64_t next_seq = ContentsOf(directory / SegmentName(*number)).next_seq;
    sensible.writer.first_seq = std::max(sensible.writer.first_seq, next_seq);
    if (next_seq != 0) break;
  }
  // Number 0 is the first daemon's: without its file, something is wrong, and it is not made again.
  const uint32_t number = numbers.empty() ? 1 : numbers.back() + 1;
  SMELTR_ASSIGN_OR_RETURN(Writer writer, Writer::Create(directory / SegmentName(number), sensible.writer));
  SegmentedWriter segmented(directory, std::move(sensible), std::move(writer), number);
  segmented.closed_ = std::move(there);
  segmented.closed_bytes_ = there_bytes;
  return segmented;
}

void SegmentedWriter::Append(const event::Event& event) {
  writer_.Append(event);
  if (options_.max_bytes != 0) scopes_.Note(event);
  KeepBelowLimit();
}

void SegmentedWriter::FlushIfDue(uint64_t now_ns) {
  writer_.FlushIfDue(now_ns);
  KeepBelowLimit();
}

Result<void> SegmentedWriter::Flush() {
  Result<void> flushed = writer_.Flush();
  KeepBelowLimit();
  return flushed;
}

Result<void> SegmentedWriter::Close() {
  Result<void> closed = writer_.Close();
  Trim(0);
  for (const auto& sync : std::exchange(unsynced_, {})) {
    const Result<void> synced = sync();
    if (closed && !synced) closed = synced;
  }
  return closed;
}

std::function<Result<void>()> SegmentedWriter::SyncTask() {
  const bool names = std::exchange(names_unsynced_, false);
  return [closed = std::exchange(unsynced_, {}), current = writer_.SyncTask(), names,
          directory = directory_]() -> Result<void> {
    for (const auto& sync : closed) SMELTR_TRY(sync());
    SMELTR_TRY(current());
    return names ? SyncDirectory(directory) : Result<void>();
  };
}

uint64_t SegmentedWriter::SegmentLimit() const {
  return options_.max_bytes / (number_ == 0 ? kFirstShare : kSegmentShare);
}

// Cheap while no chunk was written: called for every event.
void SegmentedWriter::KeepBelowLimit() {
  if (options_.max_bytes == 0) return;
  const uint64_t bytes = writer_.totals().file_bytes;
  if (bytes == checked_bytes_) return;
  checked_bytes_ = bytes;
  if (bytes >= SegmentLimit()) StartNext();
  Trim(0);
}

void SegmentedWriter::StartNext() {
  WriterOptions next = options_.writer;
  next.first_seq = writer_.next_seq();
  auto writer = Writer::Create(directory_ / SegmentName(number_ + 1), next);
  // Rather too large a file than a lost event: tried again with the next chunk.
  if (!writer.has_value()) return;
  // What it had pending is in it now; a refusal is in its figures.
  static_cast<void>(writer_.Close(FileSync::kNone));
  // Each holds its file open; the system writes those out that nobody asks about.
  if (unsynced_.size() >= kMaxUnsynced) unsynced_.erase(unsynced_.begin());
  unsynced_.push_back(writer_.SyncTask());
  Add(closed_stats_, writer_.stats(), true);
  closed_.push_back({.number = number_, .bytes = writer_.totals().file_bytes});
  closed_bytes_ += closed_.back().bytes;
  ++number_;
  names_unsynced_ = true;
  writer_ = std::move(*writer);
  scopes_.ForEach(SegmentLimit() / kScopesShare,
                  [this](const event::Event& event) { writer_.Append(event); });
  checked_bytes_ = writer_.totals().file_bytes;
  Trim(SegmentLimit());
}

// Deletes until there is room for so many more bytes.
void SegmentedWriter::Trim(uint64_t room_bytes) {
  if (options_.max_bytes == 0) return;
  while (file_bytes() + room_bytes > options_.max_bytes) {
    const auto oldest = std::ranges::find_if(closed_, [](const Segment& one) { return one.number != 0; });
    if (oldest == closed_.end()) return;
    Delete(*oldest);
    closed_bytes_ -= oldest->bytes;
    closed_.erase(oldest);
  }
}

void SegmentedWriter::Delete(const Segment& segment) {
  const std::filesystem::path file = directory_ / SegmentName(segment.number);
  const uint64_t event_count = ContentsOf(file).event_count;
  std::error_code error;
  std::filesystem::remove(file, error);
  if (error) {
    Log(LogLevel::kWarning, fmt::format("cannot delete {}: {}", file.native(), error.message()));
    return;
  }
  closed_stats_.trimmed_event_count += event_count;
  ++closed_stats_.trimmed_file_count;
}

void SegmentedWriter::Add(WriterStats& sum, const WriterStats& part, bool kinds) {
  sum.event_count += part.event_count;
  sum.lost_count += part.lost_count;
  sum.file_bytes += part.file_bytes;
  if (!kinds) return;
  for (const auto& [kind, count] : part.counts_by_kind) sum.counts_by_kind[kind] += count;
}

const WriterStats& SegmentedWriter::stats() {
  sum_ = closed_stats_;
  Add(sum_, writer_.stats(), true);
  return sum_;
}

const WriterStats& SegmentedWriter::totals() {
  sum_.event_count = closed_stats_.event_count;
  sum_.lost_count = closed_stats_.lost_count;
  sum_.file_bytes = closed_stats_.file_bytes;
  sum_.trimmed_event_count = closed_stats_.trimmed_event_count;
  sum_.trimmed_file_count = closed_stats_.trimmed_file_count;
  Add(sum_, writer_.totals(), false);
  return sum_;
}

uint64_t SegmentedWriter::file_bytes() const { return closed_bytes_ + writer_.totals().file_bytes; }

}  // namespace smeltr::session
