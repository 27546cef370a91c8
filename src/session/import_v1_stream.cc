#include "session/import_v1_stream.h"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <memory>
#include <vector>

#include "base/bytes.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

constexpr uint32_t kMaxFrameBytes = uint32_t{16} << 20;
constexpr uint32_t kMaxChunkBytes = uint32_t{64} << 20;
constexpr size_t kReadBytes = size_t{128} << 10;
constexpr size_t kFirstReadBytes = 1024;
constexpr uint32_t kZstdMagic = 0xFD2FB528;
constexpr size_t kMagicBytes = 4;
constexpr std::array<char, 3> kChunkedMagic = {'S', 'M', 'z'};
constexpr uint8_t kChunkedVersion = 1;
constexpr uint64_t kFooterEntryBytes = 40;
constexpr uint64_t kTrailerBytes = 20;
constexpr int kMaxWindowLog = 25;
constexpr uint64_t kNowhere = ~uint64_t{0};

struct FreeContext {
  void operator()(ZSTD_DCtx* context) const { ZSTD_freeDCtx(context); }
};

// Puts frames together from decompressed pieces.
class FrameAssembler {
 public:
  explicit FrameAssembler(const std::function<V1Visit(std::span<const std::byte>)>& visit) : visit_(visit) {}

  // False: no frame can be found any more, until Restart().
  bool Feed(std::span<const std::byte> piece) {
    if (lost_ || stopped_) return false;
    pending_.insert(pending_.end(), piece.begin(), piece.end());
    size_t at = 0;
    while (pending_.size() - at >= sizeof(uint32_t)) {
      ByteReader in(std::span<const std::byte>(pending_).subspan(at));
      const auto length = in.Load<uint32_t>();
      if (length == 0 || length > kMaxFrameBytes) {
        lost_ = true;
        return false;
      }
      if (in.remaining() < length) break;
      const V1Visit answer = visit_(in.Take(length));
      at += sizeof(uint32_t) + length;
      if (answer == V1Visit::kGo) ++good_;
      if (answer == V1Visit::kBad && bad_++ == 0) first_bad_at_ = position_;
      if (answer == V1Visit::kStop) {
        stopped_ = true;
        return false;
      }
    }
    pending_.erase(pending_.begin(), pending_.begin() + static_cast<ptrdiff_t>(at));
    return true;
  }
  void Restart() {
    pending_.clear();
    lost_ = false;
  }
  bool lost() const { return lost_; }
  bool stopped() const { return stopped_; }
  bool inside_frame() const { return !pending_.empty(); }
  // Where in the file the next piece comes from.
  void SetPosition(uint64_t position) { position_ = position; }
  uint64_t first_bad_at() const { return first_bad_at_; }
  uint64_t good() const { return good_; }
  uint64_t bad() const { return bad_; }

 private:
  const std::function<V1Visit(std::span<const std::byte>)>& visit_;
  std::vector<std::byte> pending_;
  bool lost_ = false;
  bool stopped_ = false;
  uint64_t good_ = 0;
  uint64_t bad_ = 0;
  uint64_t position_ = 0;
  uint64_t first_bad_at_ = 0;
};

class StreamReader {
 public:
  StreamReader(Fd fd, uint64_t size, const V1StreamOptions& options,
               const std::function<V1Visit(std::span<const std::byte>)>& visit)
      : fd_(std::move(fd)),
        size_(size),
        options_(options),
        frames_(visit),
        context_(ZSTD_createDCtx()),
        input_(kReadBytes),
        output_(ZSTD_DStreamOutSize()) {}

  Result<V1StreamReport> Run() {
    SMELTR_TRY(FindLayout());
    if (report_.layout == V1Layout::kPlain) {
      ReadPlain();
    } else {
      ReadCompressed();
    }
    report_.frame_count = frames_.good();
    report_.bad_frame_count = frames_.bad();
    if (frames_.bad() > 0) {
      report_.damaged = true;
      options_.notes->AddLoss(fmt::format("{} made no sense, the first at about byte {}",
                                          FormatCounted(frames_.bad(), "event"), frames_.first_bad_at()));
    }
    return report_;
  }

 private:
  // How many bytes came; fewer than asked for at the end of the file or for an error.
  size_t ReadAt(uint64_t offset, std::span<std::byte> into) const {
    size_t done = 0;
    while (done < into.size()) {
      const ssize_t got =
          ::pread(fd_.get(), into.data() + done, into.size() - done, static_cast<off_t>(offset + done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) break;
      done += static_cast<size_t>(got);
    }
    return done;
  }
  template <Scalar T>
  bool LoadAt(uint64_t offset, T& value) const {
    std::array<std::byte, sizeof(T)> bytes{};
    if (ReadAt(offset, bytes) != sizeof(T)) return false;
    value = ByteReader(bytes).Load<T>();
    return true;
  }
  bool IsZstdAt(uint64_t offset) const {
    uint32_t magic = 0;
    return LoadAt(offset, magic) && magic == kZstdMagic;
  }

  Result<void> FindLayout() {
    std::array<std::byte, kMagicBytes> head{};
    const size_t got = ReadAt(0, head);
    ByteReader in(head);
    const std::string_view magic = in.TakeText(kChunkedMagic.size());
    const auto version = in.Load<uint8_t>();
    if (got == head.size() && std::ranges::equal(magic, kChunkedMagic)) {
      if (version != kChunkedVersion) {
        return Fail(ErrorCode::kUnsupported,
                    fmt::format("version {} of the earlier format is not known here, only 1", version));
      }
      report_.layout = V1Layout::kChunked;
    } else if (got == head.size() && IsPlainHead(head)) {
      report_.layout = V1Layout::kPlain;
    }
    return {};
  }
  // A length and the head of a CBOR map, where a zstd frame would begin with its magic.
  bool IsPlainHead(std::span<const std::byte> head) const {
    const auto length = ByteReader(head).Load<uint32_t>();
    uint8_t first = 0;
    return length != kZstdMagic && length != 0 && length <= kMaxFrameBytes &&
           LoadAt(sizeof(uint32_t), first) && first >> 5 == 5;
  }

  void Lost(uint64_t begin, uint64_t end, std::string_view why) {
    report_.damaged = true;
    options_.notes->AddLoss(
        end > begin ? fmt::format("lost {} from byte {} on: {}", FormatBytes(end - begin), begin, why)
                    : fmt::format("at byte {}: {}", begin, why));
  }
  void Progress(uint64_t at) const {
    if (options_.progress) options_.progress(at, size_);
  }

  void ReadPlain() {
    uint64_t at = 0;
    while (at < size_) {
      const size_t got = ReadAt(at, input_);
      if (got == 0) break;
      frames_.SetPosition(at);
      if (!frames_.Feed(std::span(input_).first(got))) break;
      at += got;
      Progress(at);
    }
    if (frames_.stopped()) return;
    if (frames_.lost()) {
      Lost(at, size_, "what should be the length of an event is not");
    } else if (frames_.inside_frame()) {
      Lost(size_, size_, "the file ends inside an event: its writer was cut off");
    }
  }

  void ReadCompressed() {
    const bool chunked = report_.layout == V1Layout::kChunked;
    const uint64_t lead = chunked ? sizeof(uint32_t) : 0;
    uint64_t at = chunked ? kMagicBytes : 0;
    while (at < size_ && !frames_.stopped()) {
      if (chunked && IsFooter(at)) {
        has_footer_ = true;
        break;
      }
      if (!IsZstdAt(at + lead)) {
        const uint64_t next = FindZstd(at + lead);
        const uint64_t resume = next == kNowhere ? EndOfChunks(at) : next - lead;
        Lost(at, resume, "no compressed data begins here");
        at = resume;
        continue;
      }
      at = ReadZstdFrame(at, lead);
      Progress(at);
    }
    if (chunked && !frames_.stopped()) CheckFooter();
  }

  // The chunk, or the whole stream, at `at`. Returns where to go on.
  uint64_t ReadZstdFrame(uint64_t at, uint64_t lead) {
    frames_.Restart();
    ZSTD_DCtx_reset(context_.get(), ZSTD_reset_session_only);
    ZSTD_DCtx_setParameter(context_.get(), ZSTD_d_windowLogMax, kMaxWindowLog);
    const uint64_t limit = FrameLimit(at, lead);
    uint64_t from = at + lead;
    size_t hint = 1;
    // Little at first: of many places that only look like a beginning, most are given up at once.
    for (size_t step = kFirstReadBytes; hint != 0 && from < limit; step = input_.size()) {
      const auto wanted = static_cast<size_t>(std::min<uint64_t>(limit - from, step));
      const size_t got = ReadAt(from, std::span(input_).first(wanted));
      if (got == 0) break;
      ZSTD_inBuffer in{input_.data(), got, 0};
      frames_.SetPosition(from);
      if (!Decompress(in, hint)) {
        if (frames_.stopped()) return size_;
        return AfterDamage(at, lead, from, frames_.lost());
      }
      from += in.pos;
      Progress(from);
    }
    if (hint != 0) {
      const bool whole = limit < size_;
      Lost(at, limit, whole ? "a chunk that ends early" : "the file ends here: its writer was cut off");
      return limit;
    }
    if (frames_.inside_frame()) Lost(at, from, "compressed data ends inside an event");
    ++chunk_count_;
    return from;
  }
  // A chunk's length is believed when a file of that length is there.
  uint64_t FrameLimit(uint64_t at, uint64_t lead) const {
    uint32_t length = 0;
    if (lead == 0 || !LoadAt(at, length)) return size_;
    return length <= kMaxChunkBytes && at + lead + length <= size_ ? at + lead + length : size_;
  }
  // False for damage, or when no more is wanted.
  bool Decompress(ZSTD_inBuffer& in, size_t& hint) {
    while (in.pos < in.size && hint != 0) {
      ZSTD_outBuffer out{output_.data(), output_.size(), 0};
      hint = ZSTD_decompressStream(context_.get(), &out, &in);
      if (ZSTD_isError(hint) != 0) return false;
      if (!frames_.Feed(std::span(output_).first(out.pos))) return false;
    }
    return true;
  }
  uint64_t AfterDamage(uint64_t at, uint64_t lead, uint64_t near, bool framing) {
    const uint64_t next = FindZstd(at + lead + 1);
    const uint64_t resume = next == kNowhere ? EndOfChunks(at) : next - lead;
    Lost(std::min(near, resume), resume,
         framing ? "what should be the length of an event is not" : "the compressed data is damaged");
    return resume;
  }

  // The next zstd magic at or behind `from`.
  uint64_t FindZstd(uint64_t from) {
    for (size_t step = kFirstReadBytes; from < size_; step = input_.size()) {
      const auto window = std::span(input_).first(step);
      const size_t got = ReadAt(from, window);
      if (got < kMagicBytes) break;
      for (size_t i = 0; i + kMagicBytes <= got; ++i) {
        if (ByteReader(window.subspan(i, kMagicBytes)).Load<uint32_t>() == kZstdMagic) return from + i;
      }
      from += got - (kMagicBytes - 1);
    }
    return kNowhere;
  }

  // Where the trailer says that the footer is, if that is possible.
  uint64_t FooterOffset() const {
    uint64_t offset = 0;
    if (size_ < kTrailerBytes || !LoadAt(size_ - kTrailerBytes, offset)) return kNowhere;
    if (offset < kMagicBytes || offset > size_ - kTrailerBytes) return kNowhere;
    // The count is four bytes or eight; what the trailer's magic is, no description tells.
    const uint64_t bytes = size_ - kTrailerBytes - offset;
    uint32_t count = 0;
    if (bytes < sizeof(count) || !LoadAt(offset, count)) return kNowhere;
    const uint64_t entries = count * kFooterEntryBytes;
    return bytes == entries + 4 || bytes == entries + 8 ? offset : kNowhere;
  }
  bool IsFooter(uint64_t at) const { return FooterOffset() == at; }
  uint64_t EndOfChunks(uint64_t at) const {
    const uint64_t footer = FooterOffset();
    return report_.layout == V1Layout::kChunked && footer != kNowhere && footer >= at ? footer : size_;
  }
  void CheckFooter() {
    if (!has_footer_) {
      options_.notes->Add("the file has no index at its end: it was never closed");
      return;
    }
    uint32_t listed = 0;
    LoadAt(FooterOffset(), listed);
    if (listed <= chunk_count_) return;
    report_.damaged = true;
    options_.notes->AddLoss(fmt::format("{} of {} could not be read whole",
                                        FormatCount(listed - chunk_count_), FormatCounted(listed, "chunk")));
  }

  Fd fd_;
  uint64_t size_;
  const V1StreamOptions& options_;
  FrameAssembler frames_;
  std::unique_ptr<ZSTD_DCtx, FreeContext> context_;
  std::vector<std::byte> input_;
  std::vector<std::byte> output_;
  V1StreamReport report_;
  uint64_t chunk_count_ = 0;
  bool has_footer_ = false;
};

}  // namespace

std::string_view Name(V1Layout layout) {
  static constexpr std::array<std::string_view, 3> kNames = {"Rust smeltr, plain", "Rust smeltr, stream",
                                                             "Rust smeltr, chunked"};
  return kNames[static_cast<size_t>(layout)];
}

Result<V1StreamReport> ReadV1Stream(const std::filesystem::path& file, const V1StreamOptions& options,
                                    const std::function<V1Visit(std::span<const std::byte> cbor)>& visit) {
  SMELTR_ASSIGN_OR_RETURN(Fd fd, OpenRegularFile(file));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return std::unexpected(SystemError("look at", file, errno));
  return StreamReader(std::move(fd), static_cast<uint64_t>(status.st_size), options, visit).Run();
}

}  // namespace smeltr::session
