// Reads all of a session and says what is damaged and what that cost. Changes nothing.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace smeltr::session {

enum class FaultyPart : uint8_t {
  kFile,  // Not there, or none of its bytes make sense.
  kFileHeader,
  kGap,          // Bytes that are no chunk.
  kTornTail,     // The file ends inside a chunk.
  kChunkHeader,  // The index has a copy of it.
  kTexts,
  kBlock,
  kIndex,
  kMetadata,
  kCounts,  // More or fewer events than the metadata counts.
};
// "file", "file_header", "gap" ...
std::string_view Name(FaultyPart part);

struct Fault {
  FaultyPart part = FaultyPart::kFile;
  std::string file{};  // "events.smlt"; empty: of the session as a whole.
  std::string text{};  // What is wrong, for people; without the cost.
  uint64_t offset = 0;
  uint64_t bytes = 0;
  std::optional<uint64_t> lost_events{};           // Nothing: not known, and at least one for a gap.
  std::map<std::string, uint64_t> lost_by_kind{};  // Full kind names, where they are known.
  uint64_t begin_ns = 0;                           // The time the lost events are of; both 0: not known.
  uint64_t end_ns = 0;
};

struct VerifiedFile {
  std::string name{};
  uint64_t file_bytes = 0;
  uint64_t chunk_count = 0;
  uint64_t event_count = 0;  // Sound ones.
  std::map<std::string, uint64_t> counts_by_kind{};
  uint64_t unknown_kind_events = 0;  // Of these: not looked into beyond checksum, time, seq and pid.
  uint64_t next_seq = 0;             // Behind the last event that the headers tell of; 0: none.
  bool has_index = false;
  std::vector<Fault> faults{};  // At most kMaxListedFaults.
  uint64_t fault_count = 0;
};
inline constexpr size_t kMaxListedFaults = 1000;

// Called now and then with bytes done and bytes in all.
using Progress = std::function<void(uint64_t done_bytes, uint64_t total_bytes)>;

// One events file. With `still_written`, a missing index and a chunk that has not arrived as a whole are no
// faults. An error when it cannot be opened (kNotFound ...), is no session file (kCorrupt) or of a newer
// format (kUnsupported).
Result<VerifiedFile> VerifyFile(const std::filesystem::path& file, bool still_written,
                                const Progress& progress = nullptr);

struct VerifiedSession {
  std::filesystem::path directory{};
  std::string session_id{};  // Empty: its metadata cannot be read.
  bool still_written = false;
  std::vector<VerifiedFile> files{};
  std::vector<Fault> faults{};  // Of files and session; at most kMaxListedFaults a file.
  uint64_t fault_count = 0;
  std::vector<std::string> notes{};  // What is worth knowing and no damage.

  bool sound() const { return fault_count == 0; }
  // Sound, but a copy would be better: a file has no index.
  bool unfinished() const;
  uint64_t event_count() const;
  std::map<std::string, uint64_t> counts_by_kind() const;
  // Of all faults that tell; more may be lost where one does not.
  uint64_t lost_events() const;
  bool loss_known() const;
};

// All of a session's directory: events files, metadata, and whether they agree. An error when there is no
// such directory, it holds no session, or a file is of a newer format.
Result<VerifiedSession> VerifySession(const std::filesystem::path& directory,
                                      const Progress& progress = nullptr);

}  // namespace smeltr::session
