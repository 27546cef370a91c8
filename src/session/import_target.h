// A session in the making that comes from elsewhere: written beside the others under a name that nobody
// lists, and put among them in one step when it is whole. What a killed import leaves behind, the next one
// deletes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "session/import_notes.h"
#include "session/metadata.h"
#include "session/store.h"
#include "session/writer.h"

namespace smeltr::session {

struct ImportOptions {
  std::filesystem::path sessions_directory;  // Where to.
  bool force = false;                        // Also what is there already, replacing it.
  std::string smeltr_version{};
  std::function<void(uint64_t done_bytes, uint64_t all_bytes)> progress = nullptr;
};

enum class ImportOutcome : uint8_t { kImported, kReplaced, kAlreadyThere };

struct ImportedSession {
  ImportOutcome outcome = ImportOutcome::kImported;
  StoredSession stored{};  // For kAlreadyThere the one that is there.
  uint64_t event_count = 0;
  uint64_t opaque_count = 0;         // Events kept unread.
  std::vector<std::string> notes{};  // Losses with their byte offsets, and what was not understood.
  bool lossy = false;
};

// The session of that id which has events of this smeltr; nothing when there is none, or only the directory
// that an earlier smeltr left. Ids are compared as NormaliseUuid gives them.
Result<std::optional<StoredSession>> FindImported(const std::filesystem::path& sessions_directory,
                                                  const std::string& session_id);

class ImportTarget {
 public:
  // `in_place`: a directory of an earlier smeltr in the same sessions directory, which is to become the
  // session; empty for a new one.
  static Result<ImportTarget> Begin(const std::filesystem::path& sessions_directory,
                                    const std::filesystem::path& in_place);
  ImportTarget(ImportTarget&& other) noexcept;
  ImportTarget& operator=(ImportTarget&&) noexcept = delete;
  // Deletes what was not put in its place.
  ~ImportTarget();

  Writer& writer() { return *writer_; }
  // Room for temporary files; Finish() deletes them.
  std::filesystem::path ScratchDirectory() const { return directory_ / "scratch"; }

  // Closes the events, completes `metadata` (counts, imported, what is empty) and puts the session in its
  // place; in the place of `replaced`, which is deleted, its pin kept. kNoSpace when the disk did not take
  // all.
  Result<StoredSession> Finish(Metadata metadata, const std::optional<StoredSession>& replaced);

 private:
  ImportTarget(std::filesystem::path sessions_directory, std::filesystem::path directory,
               std::filesystem::path in_place, Fd lock, Writer writer)
      : sessions_directory_(std::move(sessions_directory)),
        directory_(std::move(directory)),
        in_place_(std::move(in_place)),
        lock_(std::move(lock)),
        writer_(std::move(writer)) {}
  Result<void> MoveInto(const std::filesystem::path& place) const;

  std::filesystem::path sessions_directory_;
  std::filesystem::path directory_;  // Empty once it is in place.
  std::filesystem::path in_place_;
  Fd lock_;
  std::optional<Writer> writer_;
};

// 128 bits as a UUID of version 8 (RFC 9562: made by the application's own rule).
std::string UuidOfHash(uint64_t high, uint64_t low);

}  // namespace smeltr::session
