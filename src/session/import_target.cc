#include "session/import_target.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <system_error>
#include <utility>

#include "base/clock.h"
#include "session/identity.h"
#include "session/open_lock.h"
#include "session/retention.h"
#include "util/file.h"

namespace smeltr::session {
namespace {

namespace fs = std::filesystem;

// Names with a dot in front are no sessions to anybody.
constexpr std::string_view kPrefix = ".importing-";
// What the metadata of an earlier smeltr is called once ours stands in its place.
constexpr std::string_view kOldMetadataFile = "metadata.v1.toml";

void DeleteLeftovers(const fs::path& sessions_directory) {
  std::vector<fs::path> left;
  std::error_code error;
  for (fs::directory_iterator entry(sessions_directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const fs::path& path = entry->path();
    if (path.filename().native().starts_with(kPrefix) && !IsOpen(path)) left.push_back(path);
  }
  for (const fs::path& path : left) fs::remove_all(path, error);
}

Result<void> Rename(const fs::path& from, const fs::path& to) {
  if (::rename(from.c_str(), to.c_str()) != 0) return std::unexpected(SystemError("create", to, errno));
  return {};
}

}  // namespace

std::string UuidOfHash(uint64_t high, uint64_t low) {
  high = (high & ~uint64_t{0xF000}) | 0x8000;
  low = (low & ~(uint64_t{3} << 62)) | uint64_t{2} << 62;
  return fmt::format("{:08x}-{:04x}-{:04x}-{:04x}-{:012x}", high >> 32, high >> 16 & 0xFFFF, high & 0xFFFF,
                     low >> 48, low & 0xFFFF'FFFF'FFFF);
}

Result<std::optional<StoredSession>> FindImported(const fs::path& sessions_directory,
                                                  const std::string& session_id) {
  const std::optional<std::string> wanted = NormaliseUuid(session_id);
  SMELTR_ASSIGN_OR_RETURN(std::vector<StoredSession> sessions, ListSessions(sessions_directory));
  for (StoredSession& one : sessions) {
    std::error_code ignored;
    if (wanted && NormaliseUuid(one.metadata.session_id) == wanted &&
        fs::exists(one.directory / kEventsFile, ignored)) {
      return std::move(one);
    }
  }
  return std::nullopt;
}

Result<ImportTarget> ImportTarget::Begin(const fs::path& sessions_directory, const fs::path& in_place) {
  SMELTR_TRY(MakePrivateDirectory(sessions_directory));
  DeleteLeftovers(sessions_directory);
  SMELTR_ASSIGN_OR_RETURN(const std::string unique, MakeUuid());
  fs::path directory = sessions_directory / (std::string(kPrefix) + unique);
  if (::mkdir(directory.c_str(), 0700) != 0) {
    return std::unexpected(SystemError("create", directory, errno));
  }
  SMELTR_ASSIGN_OR_RETURN(Fd lock, LockOpen(directory));
  SMELTR_ASSIGN_OR_RETURN(Writer writer, Writer::Create(directory / kEventsFile, WriterOptions{}));
  return ImportTarget(sessions_directory, std::move(directory), in_place, std::move(lock), std::move(writer));
}

ImportTarget::ImportTarget(ImportTarget&& other) noexcept
    : sessions_directory_(std::move(other.sessions_directory_)),
      directory_(std::exchange(other.directory_, {})),
      in_place_(std::move(other.in_place_)),
      lock_(std::move(other.lock_)),
      writer_(std::exchange(other.writer_, std::nullopt)) {}

ImportTarget::~ImportTarget() {
  if (directory_.empty()) return;
  writer_.reset();
  std::error_code ignored;
  fs::remove_all(directory_, ignored);
}

Result<StoredSession> ImportTarget::Finish(Metadata metadata, const std::optional<StoredSession>& replaced) {
  SMELTR_TRY(writer_->Close());
  const WriterStats stats = writer_->stats();
  writer_.reset();
  if (stats.lost_count > 0) return Fail(ErrorCode::kNoSpace, "the disk is full: nothing was imported");
  std::error_code ignored;
  fs::remove_all(ScratchDirectory(), ignored);

  metadata.event_counts = stats.counts_by_kind;
  metadata.imported_rfc3339 = FormatUtc(WallNowNs());
  const uint64_t started_ns = ParseInstant(metadata.started_rfc3339).value_or(WallNowNs());
  if (metadata.started_rfc3339.empty()) metadata.started_rfc3339 = FormatUtc(started_ns);
  if (metadata.ended_rfc3339.empty()) metadata.ended_rfc3339 = metadata.started_rfc3339;
  SMELTR_TRY(WriteMetadata(directory_, metadata));

  bool pinned = false;
  if (replaced) {
    pinned = IsPinned(replaced->directory);
    // In place, the new files simply take the place of the old ones.
    if (in_place_.empty() || !fs::equivalent(replaced->directory, in_place_, ignored)) {
      SMELTR_TRY(RemoveSession(sessions_directory_, replaced->directory.filename().native(), true));
    }
  }
  fs::path place = in_place_;
  if (place.empty()) {
    place = sessions_directory_ / fmt::format("{}-{}", DirectoryStamp(started_ns), ShortId(metadata));
    SMELTR_TRY(Rename(directory_, place));
  } else {
    SMELTR_TRY(MoveInto(place));
    fs::remove_all(directory_, ignored);
  }
  directory_.clear();
  lock_.Reset();
  if (pinned) SMELTR_TRY(SetPinned(place, true));
  return StoredSession{.directory = std::move(place), .metadata = std::move(metadata)};
}

Result<void> ImportTarget::MoveInto(const fs::path& place) const {
  std::error_code ignored;
  if (!fs::exists(place / kOldMetadataFile, ignored) && fs::exists(place / kMetadataFile, ignored)) {
    SMELTR_TRY(Rename(place / kMetadataFile, place / kOldMetadataFile));
  }
  SMELTR_TRY(Rename(directory_ / kMetadataFile, place / kMetadataFile));
  // Last: with events of ours in it, the directory counts as imported.
  return Rename(directory_ / kEventsFile, place / kEventsFile);
}

}  // namespace smeltr::session
