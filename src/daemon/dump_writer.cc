#include "daemon/dump_writer.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <system_error>
#include <thread>
#include <utility>

#include "base/clock.h"
#include "daemon/scope_names.h"
#include "session/append_file.h"
#include "session/chunk_file.h"
#include "session/chunk_header.h"
#include "session/identity.h"
#include "session/store.h"
#include "util/file.h"
#include "util/log.h"

namespace smeltr::daemon {
namespace {

Result<session::ChunkFileStats> WriteEvents(const std::filesystem::path& file,
                                            const std::vector<RecordedChunk>& chunks) {
  SMELTR_ASSIGN_OR_RETURN(auto writer, session::ChunkFileWriter::Create(file));
  for (const RecordedChunk& chunk : chunks) SMELTR_TRY(writer.Append(*chunk.bytes));
  SMELTR_TRY(writer.Close());
  return writer.stats();
}

// Behind those of the chunks.
uint64_t NextSeq(const std::vector<RecordedChunk>& chunks) {
  uint64_t next = 1;
  for (const RecordedChunk& chunk : chunks) {
    const std::span<const std::byte> bytes(*chunk.bytes);
    const auto header_bytes =
        session::ClaimedHeaderBytes(bytes.first(std::min(bytes.size(), session::kChunkFixedBytes)));
    if (!header_bytes || *header_bytes > bytes.size()) continue;
    const auto header = session::DecodeChunkHeader(bytes.first(*header_bytes));
    if (header) next = std::max(next, header->first_seq + header->event_count);
  }
  return next;
}

// Fills a directory that exists.
Result<session::ChunkFileStats> Fill(session::StoredSession& stored, const DumpJob& job) {
  SMELTR_ASSIGN_OR_RETURN(session::ChunkFileStats stats,
                          WriteEvents(stored.directory / session::kEventsFile, job.chunks));
  stored.metadata.event_counts = stats.counts_by_kind;
  // Without their names the rest is still worth having.
  if (const auto source = session::Resolve(stored.directory.parent_path(), job.metadata.source_session_id);
      source.has_value()) {
    const auto carried = CarryScopes(source->directory, stored.directory, NextSeq(job.chunks));
    if (!carried.has_value()) Log(LogLevel::kWarning, std::string(carried.error().text()));
    const uint64_t count = carried.value_or(0);
    if (count > 0) stored.metadata.event_counts["ModuleEntered"] += count;
    stats.event_count += count;
  }
  if (stored.metadata.ended_rfc3339.empty()) stored.metadata.ended_rfc3339 = session::FormatUtc(WallNowNs());
  stored.metadata.end_reason = "post-mortem";
  SMELTR_TRY(session::WriteMetadata(stored.directory, stored.metadata));
  // A new directory's name is on disk only when its parent is.
  SMELTR_TRY(session::SyncDirectory(stored.directory.parent_path()));
  return stats;
}

}  // namespace

session::Metadata MetadataAbout(const session::Metadata& source) {
  session::Metadata metadata;
  metadata.kind = session::SessionKind::kPostMortem;
  metadata.source_session_id = source.session_id;
  metadata.name = source.name;
  metadata.started_rfc3339 = source.started_rfc3339;
  metadata.start_mono_ns = source.start_mono_ns;
  metadata.boot_id = source.boot_id;
  metadata.host = source.host;
  metadata.argv = source.argv;
  metadata.cwd = source.cwd;
  metadata.root_pid = source.root_pid;
  metadata.root_start_time_ticks = source.root_start_time_ticks;
  metadata.exit_code = source.exit_code;
  metadata.term_signal = source.term_signal;
  metadata.core_dumped = source.core_dumped;
  metadata.hook_state = source.hook_state;
  metadata.hook_reason = source.hook_reason;
  metadata.smeltr_version = source.smeltr_version;
  metadata.dropped_counts = source.dropped_counts;
  return metadata;
}

Result<WrittenDump> WriteDump(const std::filesystem::path& sessions_directory, const DumpJob& job) {
  SMELTR_ASSIGN_OR_RETURN(session::StoredSession stored,
                          session::CreatePostMortem(sessions_directory, job.label, job.metadata));
  const auto stats = Fill(stored, job);
  if (!stats.has_value()) {
    std::error_code ignored;
    std::filesystem::remove_all(stored.directory, ignored);
    return std::unexpected(stats.error());
  }
  return WrittenDump{.source_session = stored.metadata.source_session_id,
                     .session_id = stored.metadata.session_id,
                     .directory = stored.directory,
                     .reason = job.reason,
                     .event_count = stats->event_count,
                     .begin_ns = stored.metadata.covered_begin_ns,
                     .end_ns = stored.metadata.covered_end_ns,
                     .trigger_count = static_cast<uint32_t>(stored.metadata.trigger_count),
                     .file_bytes = stats->file_bytes};
}

struct DumpThread::State {
  std::filesystem::path sessions_directory;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<void(State&)>> work;  // Guarded by mutex, as all below.
  std::vector<Finished> finished;
  bool started = false;
  bool working = false;
  bool ending = false;
  std::thread thread;  // Of the owner.

  void Run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return ending || !work.empty(); });
      if (work.empty()) return;
      const auto next = std::move(work.front());
      work.pop_front();
      working = true;
      lock.unlock();
      next(*this);
      lock.lock();
      working = false;
      changed.notify_all();
    }
  }
  void Finish(uint64_t number, Result<WrittenDump> dump) {
    const std::lock_guard lock(mutex);
    finished.push_back({number, std::move(dump)});
  }
};

DumpThread::DumpThread(std::filesystem::path sessions_directory) : state_(std::make_shared<State>()) {
  state_->sessions_directory = std::move(sessions_directory);
}

DumpThread::~DumpThread() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->ending = true;
  }
  state_->changed.notify_all();
  if (state_->thread.joinable()) state_->thread.join();
}

void DumpThread::Push(std::function<void(State&)> work) {
  {
    const std::lock_guard lock(state_->mutex);
    state_->work.push_back(std::move(work));
  }
  if (!std::exchange(state_->started, true)) {
    state_->thread = std::thread([state = state_] { state->Run(); });
  }
  state_->changed.notify_all();
}

uint64_t DumpThread::Write(DumpJob job) {
  const uint64_t number = next_number_++;
  Push([number, job = std::move(job)](State& state) {
    state.Finish(number, WriteDump(state.sessions_directory, job));
  });
  return number;
}

void DumpThread::UpdateTriggers(std::filesystem::path directory, std::vector<session::TriggerNote> triggers,
                                uint64_t trigger_count) {
  Push([directory = std::move(directory), triggers = std::move(triggers), trigger_count](State&) {
    auto metadata = session::ReadMetadata(directory);
    if (!metadata.has_value()) return;  // Removed meanwhile.
    metadata->triggers = triggers;
    metadata->trigger_count = trigger_count;
    if (const auto written = session::WriteMetadata(directory, *metadata); !written.has_value()) {
      Log(LogLevel::kWarning, written.error().text());
    }
  });
}

std::vector<DumpThread::Finished> DumpThread::TakeFinished() {
  const std::lock_guard lock(state_->mutex);
  return std::exchange(state_->finished, {});
}

bool DumpThread::WaitUntil(uint64_t deadline_ns) {
  const uint64_t now_ns = MonotonicNowNs();
  const std::chrono::nanoseconds left(deadline_ns > now_ns ? deadline_ns - now_ns : 0);
  std::unique_lock lock(state_->mutex);
  const bool done =
      state_->changed.wait_for(lock, left, [this] { return state_->work.empty() && !state_->working; });
  if (!done) {
    state_->work.clear();
    state_->thread.detach();
  }
  return done;
}

bool DumpThread::busy() const {
  const std::lock_guard lock(state_->mutex);
  return !state_->work.empty() || state_->working || !state_->finished.empty();
}

}  // namespace smeltr::daemon
