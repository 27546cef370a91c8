#include "session/writer.h"

#include <array>
#include <atomic>
#include <csignal>
#include <optional>
#include <utility>

#include "event/names.h"
#include "session/append_file.h"
#include "session/chunk_builder.h"
#include "session/footer.h"

namespace smeltr::session {
namespace {

// Beyond so many unknown kinds the rest is counted together: the numbers come from a stranger.
constexpr size_t kListedOpaqueKinds = 256;

// Stores that the compiler keeps in their order as seen by a signal handler on the same thread.
class BusyMark {
 public:
  explicit BusyMark(volatile std::sig_atomic_t& busy) : busy_(busy) {
    busy_ = 1;
    std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  ~BusyMark() {
    std::atomic_signal_fence(std::memory_order_seq_cst);
    busy_ = 0;
  }
  BusyMark(const BusyMark&) = delete;
  BusyMark& operator=(const BusyMark&) = delete;

 private:
  volatile std::sig_atomic_t& busy_;
};

}  // namespace

struct Writer::State {
  State(std::unique_ptr<AppendFile> append_file, const WriterOptions& writer_options)
      : file(std::move(append_file)),
        options(writer_options),
        chunk(writer_options.chunk_raw_bytes, writer_options.zstd_level),
        next_seq(writer_options.first_seq) {}

  Result<void> StoreFileHeader();
  void Count(const event::Event& event);
  void Seal();
  Result<void> Store(std::span<const std::byte> bytes);
  Result<void> StoreFooter();

  std::shared_ptr<AppendFile> file;  // Shared with the sync that may still be under way.
  WriterOptions options;
  ChunkBuilder chunk;
  WriterStats stats;
  uint64_t next_seq;
  uint64_t chunk_count = 0;
  uint64_t last_flush_call_ns = 0;
  uint64_t pending_since_ns = 0;        // 0: nothing pending.
  std::optional<Error> refused;         // Not told to anyone yet.
  bool dirty_tail = false;              // A refused chunk may have left bytes behind the good end.
  volatile std::sig_atomic_t busy = 0;  // In the middle of a change, for a signal handler to see.
  // By api and kind; turned into names on request. Opaque kinds apart: their numbers are not bounded.
  std::array<std::array<uint64_t, event::kKindLimit>, event::kEnumSize<event::Api>> counts{};
  std::map<std::pair<uint16_t, event::Api>, uint64_t> opaque_counts;
};

Result<void> Writer::State::StoreFileHeader() {
  if (stats.file_bytes != 0) return {};
  ByteBuffer header;
  PutFileHeader(header);
  return Store(header.view());
}

// All or nothing: what the disk took only a part of is cut off again, so that the file always ends at a
// chunk boundary and the next chunk has a place to go.
Result<void> Writer::State::Store(std::span<const std::byte> bytes) {
  Result<void> written = file->WriteAt(stats.file_bytes, bytes);
  if (!written) {
    dirty_tail = !file->Truncate(stats.file_bytes).has_value();
    return written;
  }
  stats.file_bytes += bytes.size();
  if (dirty_tail) dirty_tail = !file->Truncate(stats.file_bytes).has_value();
  return {};
}

void Writer::State::Count(const event::Event& event) {
  ++stats.event_count;
  const auto api = static_cast<size_t>(event.envelope.api);
  const event::Api checked = api < event::kEnumSize<event::Api> ? event.envelope.api : event::Api::kNone;
  if (const auto* opaque = std::get_if<event::Opaque>(&event.payload)) {
    const bool listed = opaque_counts.size() < kListedOpaqueKinds;
    ++opaque_counts[{listed ? opaque->kind_number : uint16_t{0}, checked}];
  } else {
    ++counts[static_cast<size_t>(checked)][static_cast<size_t>(event::KindOf(event.payload))];
  }
}

void Writer::State::Seal() {
  SealedChunk sealed{.bytes = {},
                     .min_ts_ns = chunk.min_ts_ns(),
                     .max_ts_ns = chunk.max_ts_ns(),
                     .event_count = chunk.event_count()};
  if (sealed.event_count == 0) return;
  pending_since_ns = 0;
  sealed.bytes = chunk.Seal();
  if (options.on_sealed) options.on_sealed(sealed);
  Result<void> stored = StoreFileHeader();
  if (stored) stored = Store(sealed.bytes);
  if (!stored) {
    stats.lost_count += sealed.event_count;
    refused = stored.error();
    return;
  }
  ++chunk_count;
}

Result<Writer> Writer::Create(const std::filesystem::path& file, const WriterOptions& options) {
  SMELTR_ASSIGN_OR_RETURN(auto append_file, CreateAppendFile(file));
  return CreateOn(std::move(append_file), options);
}

Writer Writer::CreateOn(std::unique_ptr<AppendFile> file, const WriterOptions& options) {
  auto state = std::make_unique<State>(std::move(file), options);
  // A full disk is no reason not to record: the header is tried again with the first chunk.
  static_cast<void>(state->StoreFileHeader());
  return Writer(std::move(state));
}

Writer::Writer(std::unique_ptr<State> state) : state_(std::move(state)) {}
Writer::Writer(Writer&&) noexcept = default;
Writer& Writer::operator=(Writer&&) noexcept = default;
Writer::~Writer() = default;

void Writer::Append(const event::Event& event) {
  State& state = *state_;
  const BusyMark mark(state.busy);
  event::Envelope envelope = event.envelope;
  envelope.seq = state.next_seq++;
  if (state.chunk.event_count() == 0) state.pending_since_ns = state.last_flush_call_ns;
  state.chunk.Append(envelope, event.payload);
  state.Count(event);
  if (state.chunk.full()) state.Seal();
}

void Writer::FlushIfDue(uint64_t now_ns) {
  State& state = *state_;
  const BusyMark mark(state.busy);
  state.last_flush_call_ns = now_ns;
  if (state.chunk.event_count() == 0) return;
  // The oldest event came after the call before its append: that call's time is never too late.
  if (state.pending_since_ns == 0) state.pending_since_ns = now_ns;
  if (now_ns - state.pending_since_ns >= state.options.flush_after_ns) state.Seal();
}

Result<void> Writer::Flush() {
  {
    const BusyMark mark(state_->busy);
    state_->Seal();
  }
  if (std::optional<Error> refused = std::exchange(state_->refused, std::nullopt)) {
    return std::unexpected(*refused);
  }
  return {};
}

Result<void> Writer::State::StoreFooter() {
  SMELTR_TRY(StoreFileHeader());
  const uint64_t start = stats.file_bytes;
  const Result<uint64_t> end = WriteFooter(*file, start, chunk_count);
  if (end) stats.file_bytes = *end;
  if (!end || dirty_tail) static_cast<void>(file->Truncate(stats.file_bytes));
  if (!end) return std::unexpected(end.error());
  return {};
}

Result<void> Writer::Close(FileSync sync) {
  State& state = *state_;
  const Result<void> flushed = Flush();
  const BusyMark mark(state.busy);
  Result<void> footer = state.StoreFooter();
  Result<void> synced;
  if (sync == FileSync::kDisk) synced = state.file->Sync();
  if (!flushed) return flushed;
  if (!footer) return footer;
  return synced;
}

std::function<Result<void>()> Writer::SyncTask() const {
  return [file = state_->file] { return file->Sync(); };
}

void Writer::FlushIfIdle() {
  if (state_->busy == 0) state_->Seal();
}

uint64_t Writer::next_seq() const { return state_->next_seq; }

const WriterStats& Writer::totals() const { return state_->stats; }

const WriterStats& Writer::stats() const {
  WriterStats& stats = state_->stats;
  stats.counts_by_kind.clear();
  const auto add = [&](event::Api api, size_t kind, uint64_t count) {
    const event::KindName name(api, static_cast<event::Kind>(kind));
    if (count != 0) stats.counts_by_kind[std::string(name.view())] += count;
  };
  for (size_t api = 0; api < state_->counts.size(); ++api) {
    for (size_t kind = 0; kind < event::kKindLimit; ++kind) {
      add(static_cast<event::Api>(api), kind, state_->counts[api][kind]);
    }
  }
  for (const auto& [kind, count] : state_->opaque_counts) add(kind.second, kind.first, count);
  return stats;
}

}  // namespace smeltr::session
