// A session's directory. Declared in repair.h.
#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "session/append_file.h"
#include "session/chunk_file.h"
#include "session/identity.h"
#include "session/metadata.h"
#include "session/open_lock.h"
#include "session/recover.h"
#include "session/repair.h"
#include "session/segmented_writer.h"
#include "session/store.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

namespace fs = std::filesystem;

// Names with a dot in front are no sessions, and with more behind are no events files to anybody.
constexpr std::string_view kCopyingPrefix = ".repairing-";
constexpr std::string_view kTemporarySuffix = ".repaired";
constexpr size_t kShortIdDigits = 8;
constexpr size_t kMaxNotes = 20;

// Taken away again unless everything went well.
class Temporary {
 public:
  explicit Temporary(fs::path path) : path_(std::move(path)) {}
  ~Temporary() {
    std::error_code ignored;
    if (!path_.empty()) fs::remove_all(path_, ignored);
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;
  Temporary(Temporary&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Temporary& operator=(Temporary&&) = delete;

  const fs::path& path() const { return path_; }
  void Keep() { path_.clear(); }

 private:
  fs::path path_;
};

uint64_t Sum(const std::map<std::string, uint64_t>& counts) {
  uint64_t sum = 0;
  for (const auto& [kind, count] : counts) sum += count;
  return sum;
}

Result<void> Rename(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (error) return std::unexpected(SystemError("put in place", to, error.value()));
  return {};
}

Result<void> MustBeAtRest(const VerifiedSession& before) {
  if (!before.still_written && !IsOpen(before.directory)) return {};
  return Fail(ErrorCode::kUnavailable, "the session is still being recorded; repair it when it has ended");
}

std::string NoteOf(const Fault& fault) {
  std::string note = fault.file.empty() ? fault.text : fmt::format("{}: {}", fault.file, fault.text);
  if (!fault.lost_events) return note + "; how many events were lost is not known";
  if (*fault.lost_events != 0) note += fmt::format("; {} lost", FormatCounted(*fault.lost_events, "event"));
  return note;
}

// The original's, or made anew, and what the repair adds. `counts`: of the repaired files.
Result<Metadata> RepairedMetadata(const VerifiedSession& before,
                                  const std::map<std::string, uint64_t>& counts) {
  Metadata metadata;
  if (auto original = ReadMetadata(before.directory)) {
    metadata = std::move(*original);
  } else {
    SMELTR_ASSIGN_OR_RETURN(metadata, RebuildMetadata(before.directory));
    metadata.event_counts.clear();  // Of the damaged files' headers.
  }
  if (metadata.event_counts.empty()) {
    metadata.event_counts = counts;
    for (const Fault& fault : before.faults) {
      for (const auto& [kind, count] : fault.lost_by_kind) metadata.event_counts[kind] += count;
    }
  }
  const uint64_t there = Sum(counts) + metadata.storage_lost_count + metadata.trimmed_event_count;
  const uint64_t counted = Sum(metadata.event_counts);
  if (counted >= there) {
    metadata.repair_lost_count = counted - there;
  } else {
    // Damaged itself, or of a daemon that took the session over and counted its own.
    metadata.event_counts = counts;
    metadata.repair_lost_count += before.lost_events();
  }
  metadata.repaired_rfc3339 = FormatUtc(WallNowNs());
  for (const Fault& fault : before.faults) {
    if (metadata.repair_notes.size() >= kMaxNotes) break;
    metadata.repair_notes.push_back(NoteOf(fault));
  }
  return metadata;
}

// An events file with an index and nothing else.
Result<void> WriteEmptyFile(const fs::path& file) {
  SMELTR_ASSIGN_OR_RETURN(ChunkFileWriter writer, ChunkFileWriter::Create(file));
  return writer.Close();
}

// All numbers there are, and that of the file which every session has.
std::vector<uint32_t> Numbers(const fs::path& directory) {
  std::vector<uint32_t> numbers = ListSegments(directory);
  if (numbers.empty() || numbers.front() != 0) numbers.insert(numbers.begin(), 0);
  return numbers;
}

// False where `from` is not there or no session file at all: there is nothing to write in its place.
Result<bool> RepairIfReadable(const fs::path& from, const fs::path& to) {
  const Result<uint64_t> repaired = RepairFile(from, to);
  if (repaired.has_value()) return true;
  const ErrorCode code = repaired.error().code();
  std::error_code ignored;
  const bool unreadable = code == ErrorCode::kCorrupt || code == ErrorCode::kNotFound;
  if (!unreadable || fs::exists(to, ignored)) return std::unexpected(repaired.error());
  return false;
}

std::string NewDirectoryName(const fs::path& directory, std::string_view session_id) {
  std::string name = directory.filename().native();
  if (InstantOfDirectoryName(name).empty()) return name + "-repaired";
  name.replace(name.size() - kShortIdDigits, kShortIdDigits, session_id.substr(0, kShortIdDigits));
  return name;
}

// What is in the directory besides events and metadata; not whether it is pinned, and no links.
Result<void> CopyOthers(const fs::path& from, const fs::path& to) {
  std::error_code error;
  fs::directory_iterator entry(from, error);
  for (; !error && entry != fs::directory_iterator(); entry.increment(error)) {
    const std::string name = entry->path().filename().native();
    const bool rewritten = name.starts_with("events") || name == kMetadataFile || name == "pinned";
    const bool plain =
        fs::is_regular_file(entry->symlink_status()) || fs::is_directory(entry->symlink_status());
    if (rewritten || !plain) continue;
    constexpr auto kHow = fs::copy_options::recursive | fs::copy_options::skip_symlinks;
    fs::copy(entry->path(), to / name, kHow, error);
    if (error) break;
  }
  if (error) return std::unexpected(SystemError("copy from", from, error.value()));
  return {};
}

Result<Temporary> MakeCopyDirectory(const fs::path& final_directory) {
  std::error_code error;
  if (fs::exists(fs::symlink_status(final_directory, error))) {
    return Fail(ErrorCode::kAlreadyExists,
                fmt::format("{} exists already; give another directory", final_directory.native()));
  }
  fs::path copying =
      final_directory.parent_path() / (std::string(kCopyingPrefix) + final_directory.filename().native());
  fs::remove_all(copying, error);  // Of a repair that was interrupted.
  if (::mkdir(copying.c_str(), 0700) != 0) return std::unexpected(SystemError("create", copying, errno));
  return Temporary(std::move(copying));
}

Error NotSound() {
  return {ErrorCode::kCorrupt,
          "the repaired files did not come out sound, and were not put in place; is the disk all right?"};
}

Result<void> MustBeSound(const VerifiedSession& repaired) {
  if (!repaired.sound()) return std::unexpected(NotSound());
  return {};
}

// What cannot be read is kept under another name: somebody may know better. The first one tells most.
Result<void> SetAside(const fs::path& file) {
  const fs::path bad = file.native() + ".bad";
  std::error_code error;
  if (!fs::exists(fs::symlink_status(file, error)) || fs::exists(fs::symlink_status(bad, error))) return {};
  return Rename(file, bad);
}

// Metadata that says the session is over, which a copy always is.
void Complete(Metadata& metadata, const fs::path& directory) {
  if (!metadata.ended_rfc3339.empty()) return;
  const uint64_t last_ns = LastEventsChangeNs(directory);
  metadata.ended_rfc3339 = FormatUtc(last_ns != 0 ? last_ns : WallNowNs());
  if (metadata.end_reason.empty()) metadata.end_reason = "recovered";
}

}  // namespace

Result<RepairedSession> RepairCopy(VerifiedSession before, const fs::path& output) {
  SMELTR_TRY(MustBeAtRest(before));
  const fs::path directory = before.directory;
  SMELTR_ASSIGN_OR_RETURN(std::string session_id, MakeUuid());
  const fs::path final_directory =
      output.empty() ? directory.parent_path() / NewDirectoryName(directory, session_id) : output;
  SMELTR_ASSIGN_OR_RETURN(Temporary copy, MakeCopyDirectory(final_directory));
  for (const uint32_t number : Numbers(directory)) {
    const std::string name = SegmentName(number);
    SMELTR_ASSIGN_OR_RETURN(const bool repaired, RepairIfReadable(directory / name, copy.path() / name));
    if (!repaired && number == 0) SMELTR_TRY(WriteEmptyFile(copy.path() / name));
  }
  SMELTR_TRY(CopyOthers(directory, copy.path()));
  SMELTR_ASSIGN_OR_RETURN(const VerifiedSession events, VerifySession(copy.path()));
  SMELTR_ASSIGN_OR_RETURN(Metadata metadata, RepairedMetadata(before, events.counts_by_kind()));
  Complete(metadata, directory);
  metadata.repaired_from_id = std::exchange(metadata.session_id, session_id);
  if (!metadata.name.empty()) metadata.name += " (repaired)";
  // First the original, whose unknown keys then stay.
  std::error_code ignored;
  fs::copy_file(directory / kMetadataFile, copy.path() / kMetadataFile, ignored);
  SMELTR_TRY(WriteMetadata(copy.path(), metadata));
  SMELTR_ASSIGN_OR_RETURN(const VerifiedSession after, VerifySession(copy.path()));
  SMELTR_TRY(MustBeSound(after));
  SMELTR_TRY(Rename(copy.path(), final_directory));
  copy.Keep();
  SMELTR_TRY(SyncDirectory(final_directory.parent_path()));
  return RepairedSession{.directory = final_directory,
                         .session_id = std::move(session_id),
                         .before = std::move(before),
                         .event_count = after.event_count(),
                         .lost_events = metadata.repair_lost_count};
}

Result<RepairedSession> RepairInPlace(VerifiedSession before) {
  SMELTR_TRY(MustBeAtRest(before));
  const fs::path directory = before.directory;
  SMELTR_ASSIGN_OR_RETURN(const Fd lock, LockOpen(directory));
  std::vector<std::pair<Temporary, fs::path>> repaired_files;
  std::map<std::string, uint64_t> counts;
  for (const uint32_t number : Numbers(directory)) {
    const fs::path file = directory / SegmentName(number);
    Temporary repaired(file.native() + std::string(kTemporarySuffix));
    std::error_code ignored;
    fs::remove(repaired.path(), ignored);  // Of a repair that was interrupted.
    SMELTR_ASSIGN_OR_RETURN(const bool readable, RepairIfReadable(file, repaired.path()));
    if (!readable) {
      SMELTR_TRY(WriteEmptyFile(repaired.path()));
      SMELTR_TRY(SetAside(file));
    }
    SMELTR_ASSIGN_OR_RETURN(const VerifiedFile verified, VerifyFile(repaired.path(), false));
    if (verified.fault_count != 0) return std::unexpected(NotSound());
    for (const auto& [kind, count] : verified.counts_by_kind) counts[kind] += count;
    repaired_files.emplace_back(std::move(repaired), file);
  }
  SMELTR_ASSIGN_OR_RETURN(const Metadata metadata, RepairedMetadata(before, counts));
  for (auto& [repaired, file] : repaired_files) {
    SMELTR_TRY(Rename(repaired.path(), file));
    repaired.Keep();
  }
  if (before.session_id.empty()) SMELTR_TRY(SetAside(directory / kMetadataFile));
  SMELTR_TRY(WriteMetadata(directory, metadata));
  return RepairedSession{.directory = directory,
                         .session_id = metadata.session_id,
                         .before = std::move(before),
                         .event_count = Sum(counts),
                         .lost_events = metadata.repair_lost_count};
}

}  // namespace smeltr::session
