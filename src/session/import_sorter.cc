#include "session/import_sorter.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <queue>
#include <utility>

#include "base/bytes.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

constexpr size_t kReadBytes = size_t{64} << 10;
constexpr size_t kWriteBytes = size_t{1} << 20;
// In a piece: time, rank, sequence, size, then the record.
constexpr size_t kHeadBytes = 3 * sizeof(uint64_t) + sizeof(uint32_t);

Result<void> WriteAll(int fd, std::span<const std::byte> bytes, const std::filesystem::path& directory) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(fd, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return std::unexpected(SystemError("write in", directory, done < 0 ? errno : EIO));
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
  return {};
}

}  // namespace

// Goes through one piece.
class ImportSorter::PieceReader {
 public:
  explicit PieceReader(int fd) : fd_(fd) {}

  // False at the end; failed() then says whether it came too early.
  bool Next() {
    if (!Fill(kHeadBytes)) {
      failed_ = end_ != begin_;
      return false;
    }
    ByteReader in(std::span<const std::byte>(buffer_).subspan(begin_, kHeadBytes));
    key_.time_ns = in.Load<int64_t>();
    key_.rank = in.Load<uint64_t>();
    key_.sequence = in.Load<uint64_t>();
    const auto size = in.Load<uint32_t>();
    begin_ += kHeadBytes;
    if (size > kMaxRecordBytes || !Fill(size)) {
      failed_ = true;
      return false;
    }
    record_ = std::span<const std::byte>(buffer_).subspan(begin_, size);
    begin_ += size;
    return true;
  }
  bool failed() const { return failed_; }
  const SortKey& key() const { return key_; }
  std::span<const std::byte> record() const { return record_; }

 private:
  bool Fill(size_t wanted) {
    if (end_ - begin_ >= wanted) return true;
    std::copy(buffer_.begin() + static_cast<ptrdiff_t>(begin_),
              buffer_.begin() + static_cast<ptrdiff_t>(end_), buffer_.begin());
    end_ -= begin_;
    begin_ = 0;
    buffer_.resize(std::max(wanted, kReadBytes));
    while (end_ < wanted) {
      const ssize_t got =
          ::pread(fd_, buffer_.data() + end_, buffer_.size() - end_, static_cast<off_t>(offset_));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      end_ += static_cast<size_t>(got);
      offset_ += static_cast<uint64_t>(got);
    }
    return true;
  }

  int fd_;
  std::vector<std::byte> buffer_;
  size_t begin_ = 0;
  size_t end_ = 0;
  uint64_t offset_ = 0;
  bool failed_ = false;
  SortKey key_;
  std::span<const std::byte> record_;
};

Result<void> ImportSorter::Add(SortKey key, std::span<const std::byte> record) {
  record = record.first(std::min(record.size(), kMaxRecordBytes));
  key.sequence = next_sequence_++;
  entries_.push_back({key, bytes_.size(), static_cast<uint32_t>(record.size())});
  bytes_.PutBytes(record);
  if (bytes_.size() + entries_.size() * sizeof(Entry) < memory_bytes_) return {};
  return StorePiece();
}

void ImportSorter::SortPiece() { std::ranges::sort(entries_, {}, &Entry::key); }

Result<void> ImportSorter::StorePiece() {
  SortPiece();
  SMELTR_TRY(MakePrivateDirectory(directory_));
  const std::filesystem::path path = directory_ / "piece";
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd.valid()) return std::unexpected(SystemError("create", path, errno));
  ::unlink(path.c_str());
  ByteBuffer out;
  for (const Entry& entry : entries_) {
    out.Put(entry.key.time_ns);
    out.Put(entry.key.rank);
    out.Put(entry.key.sequence);
    out.Put(entry.size);
    out.PutBytes(RecordOf(entry));
    if (out.size() < kWriteBytes) continue;
    SMELTR_TRY(WriteAll(fd.get(), out.view(), directory_));
    out.Clear();
  }
  SMELTR_TRY(WriteAll(fd.get(), out.view(), directory_));
  pieces_.push_back(std::move(fd));
  entries_.clear();
  bytes_.Clear();
  return {};
}

Result<void> ImportSorter::ForEach(
    const std::function<void(const SortKey& key, std::span<const std::byte> record)>& visit) {
  if (pieces_.empty()) {
    SortPiece();
    for (const Entry& entry : entries_) visit(entry.key, RecordOf(entry));
    return {};
  }
  SMELTR_TRY(StorePiece());
  std::vector<PieceReader> readers;
  readers.reserve(pieces_.size());
  for (const Fd& piece : pieces_) readers.emplace_back(piece.get());
  const auto later = [&](size_t a, size_t b) { return readers[a].key() > readers[b].key(); };
  std::priority_queue<size_t, std::vector<size_t>, decltype(later)> next(later);
  const auto advance = [&](size_t i) -> Result<void> {
    if (readers[i].Next()) {
      next.push(i);
    } else if (readers[i].failed()) {
      return Fail(ErrorCode::kIo,
                  fmt::format("a temporary file in {} cannot be read back", directory_.native()));
    }
    return {};
  };
  for (size_t i = 0; i < readers.size(); ++i) SMELTR_TRY(advance(i));
  while (!next.empty()) {
    const size_t i = next.top();
    next.pop();
    visit(readers[i].key(), readers[i].record());
    SMELTR_TRY(advance(i));
  }
  return {};
}

}  // namespace smeltr::session
