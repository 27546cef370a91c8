// A session's directory. Declared in verify.h.
#include <fmt/format.h>

#include <algorithm>
#include <system_error>
#include <utility>

#include "session/metadata.h"
#include "session/open_lock.h"
#include "session/segmented_writer.h"
#include "session/store.h"
#include "session/verify.h"
#include "util/file.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

uint64_t Sum(const std::map<std::string, uint64_t>& counts) {
  uint64_t sum = 0;
  for (const auto& [kind, count] : counts) sum += count;
  return sum;
}

class SessionVerifier {
 public:
  SessionVerifier(const std::filesystem::path& directory, const Progress& progress)
      : progress_(progress), session_{.directory = directory} {}

  Result<VerifiedSession> Verify() {
    SMELTR_TRY(CheckIsSession());
    // Before the files: one that is closed meanwhile is merely sound.
    const bool locked = IsOpen(session_.directory);
    CheckMetadata();
    session_.still_written = locked && metadata_.ended_rfc3339.empty();
    SMELTR_TRY(CheckFiles());
    if (!session_.still_written && metadata_read_) CompareCounts();
    AddNotes();
    return std::move(session_);
  }

 private:
  void AddFault(Fault fault) {
    ++session_.fault_count;
    session_.faults.push_back(std::move(fault));
  }

  Result<void> CheckIsSession() {
    std::error_code error;
    const std::filesystem::path& directory = session_.directory;
    const std::filesystem::file_status status = std::filesystem::status(directory, error);
    if (!std::filesystem::exists(status)) return std::unexpected(SystemError("open", directory, ENOENT));
    if (!std::filesystem::is_directory(status)) {
      return Fail(ErrorCode::kInvalidArgument,
                  fmt::format("{} is neither a session's directory nor a session's events file",
                              Printable(directory.native())));
    }
    if (std::filesystem::exists(directory / kMetadataFile, error) || !ListSegments(directory).empty())
      return {};
    return Fail(ErrorCode::kNotFound, fmt::format("{} holds no session: neither {} nor {}",
                                                  Printable(directory.native()), kEventsFile, kMetadataFile));
  }

  void CheckMetadata() {
    Fault fault{.part = FaultyPart::kMetadata, .file = std::string(kMetadataFile), .lost_events = 0};
    auto metadata = ReadMetadata(session_.directory);
    if (!metadata.has_value()) {
      fault.text = metadata.error().code() == ErrorCode::kNotFound ? "it is missing"
                                                                   : std::string(metadata.error().text());
      return AddFault(std::move(fault));
    }
    metadata_ = std::move(*metadata);
    metadata_read_ = true;
    session_.session_id = metadata_.session_id;
    if (MetadataIsUnchanged(session_.directory).value_or(true)) return;
    fault.text = "it is not as smeltr wrote it: damaged, or edited by hand";
    AddFault(std::move(fault));
  }

  Result<void> CheckFiles() {
    const std::vector<uint32_t> numbers = ListSegments(session_.directory);
    if (numbers.empty() || numbers.front() != 0) {
      AddFault({.part = FaultyPart::kFile, .file = std::string(kEventsFile), .text = "it is missing"});
    }
    uint64_t total_bytes = 0;
    std::error_code error;
    for (const uint32_t number : numbers) {
      const uintmax_t bytes = std::filesystem::file_size(session_.directory / SegmentName(number), error);
      if (!error) total_bytes += bytes;
    }
    uint64_t before_bytes = 0;
    for (const uint32_t number : numbers) {
      const bool newest = number == numbers.back();
      const Progress shifted = [&](uint64_t done_bytes, uint64_t) {
        if (progress_) progress_(before_bytes + done_bytes, std::max(total_bytes, before_bytes + done_bytes));
      };
      SMELTR_TRY(CheckFile(SegmentName(number), session_.still_written && newest, shifted));
      if (!session_.files.empty()) before_bytes += session_.files.back().file_bytes;
    }
    return {};
  }

  Result<void> CheckFile(const std::string& name, bool still_written, const Progress& progress) {
    auto file = VerifyFile(session_.directory / name, still_written, progress);
    if (file.has_value()) {
      session_.fault_count += file->fault_count;
      session_.faults.insert(session_.faults.end(), file->faults.begin(), file->faults.end());
      session_.files.push_back(std::move(*file));
      return {};
    }
    // One that was there a moment ago was deleted by its daemon, to keep the session below its size.
    if (session_.still_written && file.error().code() == ErrorCode::kNotFound) return {};
    if (file.error().code() == ErrorCode::kUnsupported) return std::unexpected(file.error());
    AddFault({.part = FaultyPart::kFile, .file = name, .text = std::string(file.error().text())});
    return {};
  }

  // The metadata counts what was appended, what then got lost or was deleted for good reasons included.
  void CompareCounts() {
    if (metadata_.event_counts.empty()) return;
    const uint64_t gone =
        metadata_.storage_lost_count + metadata_.trimmed_event_count + metadata_.repair_lost_count;
    const uint64_t counted = Sum(metadata_.event_counts);
    const uint64_t expected = counted - std::min(counted, gone);
    const uint64_t found = session_.event_count();
    if (found + session_.lost_events() < expected && session_.loss_known()) {
      return AddFault(
          {.part = FaultyPart::kCounts,
           .text = fmt::format("{} of {} events are not in the files: a part was cut off",
                               FormatCount(expected - found - session_.lost_events()), FormatCount(expected)),
           .lost_events = expected - found - session_.lost_events(),
           .lost_by_kind = gone == 0 ? MissingKinds() : std::map<std::string, uint64_t>{}});
    }
    if (found + session_.lost_events() < expected) {
      // The loss of some faults is not known from the files; the metadata tells all of it.
      session_.notes.push_back(
          fmt::format("by the metadata, {} events are lost in all", FormatCount(expected - found)));
    }
    // A daemon that took the session over counts what it appended itself.
    const bool resumed =
        metadata_.event_counts.contains("SessionResumed") || metadata_.end_reason == "recovered";
    if (found > expected && !resumed) {
      AddFault({.part = FaultyPart::kCounts,
                .text = fmt::format("the files hold {} events, the metadata counts {}", FormatCount(found),
                                    FormatCount(expected)),
                .lost_events = 0});
    }
  }

  std::map<std::string, uint64_t> MissingKinds() const {
    std::map<std::string, uint64_t> missing;
    const std::map<std::string, uint64_t> found = session_.counts_by_kind();
    for (const auto& [kind, count] : metadata_.event_counts) {
      const auto here = found.find(kind);
      const uint64_t found_count = here == found.end() ? 0 : here->second;
      if (found_count < count) missing[kind] = count - found_count;
    }
    return missing;
  }

  void AddNotes() {
    if (session_.still_written) {
      session_.notes.emplace_back("it is still being recorded: checked is what is on disk so far");
    }
    uint64_t unknown_events = 0;
    for (const VerifiedFile& file : session_.files) {
      unknown_events += file.unknown_kind_events;
      const bool faulty_index = std::ranges::any_of(
          file.faults, [](const Fault& fault) { return fault.part == FaultyPart::kIndex; });
      if (file.has_index || faulty_index || session_.still_written) continue;
      session_.notes.push_back(fmt::format(
          "{} has no index, as its writer was cut off; what is in it is read all the same", file.name));
    }
    if (unknown_events != 0) {
      session_.notes.push_back(fmt::format("{} of kinds that this smeltr does not know: their checksums hold",
                                           FormatCounted(unknown_events, "event")));
    }
    if (metadata_.repair_lost_count != 0) {
      session_.notes.push_back(fmt::format("it was repaired; {} were lost before that",
                                           FormatCounted(metadata_.repair_lost_count, "event")));
    }
  }

  const Progress& progress_;
  VerifiedSession session_;
  Metadata metadata_;
  bool metadata_read_ = false;
};

}  // namespace

std::string_view Name(FaultyPart part) {
  switch (part) {
    case FaultyPart::kFile:
      return "file";
    case FaultyPart::kFileHeader:
      return "file_header";
    case FaultyPart::kGap:
      return "gap";
    case FaultyPart::kTornTail:
      return "torn_tail";
    case FaultyPart::kChunkHeader:
      return "chunk_header";
    case FaultyPart::kTexts:
      return "texts";
    case FaultyPart::kBlock:
      return "block";
    case FaultyPart::kIndex:
      return "index";
    case FaultyPart::kMetadata:
      return "metadata";
    case FaultyPart::kCounts:
      return "counts";
  }
  return "unknown";
}

bool VerifiedSession::unfinished() const {
  return !still_written &&
         std::ranges::any_of(files, [](const VerifiedFile& file) { return !file.has_index; });
}

uint64_t VerifiedSession::event_count() const {
  uint64_t count = 0;
  for (const VerifiedFile& file : files) count += file.event_count;
  return count;
}

std::map<std::string, uint64_t> VerifiedSession::counts_by_kind() const {
  std::map<std::string, uint64_t> counts;
  for (const VerifiedFile& file : files) {
    for (const auto& [kind, count] : file.counts_by_kind) counts[kind] += count;
  }
  return counts;
}

uint64_t VerifiedSession::lost_events() const {
  uint64_t lost = 0;
  for (const Fault& fault : faults) lost += fault.lost_events.value_or(0);
  return lost;
}

bool VerifiedSession::loss_known() const {
  return fault_count == faults.size() &&
         std::ranges::all_of(faults, [](const Fault& fault) { return fault.lost_events.has_value(); });
}

Result<VerifiedSession> VerifySession(const std::filesystem::path& directory, const Progress& progress) {
  return SessionVerifier(directory, progress).Verify();
}

}  // namespace smeltr::session
