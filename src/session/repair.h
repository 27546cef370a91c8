// Writes a session again without what is damaged in it. Every sound chunk goes over as it is, byte for byte,
// and of a damaged one every sound block: so events of kinds that this build does not know stay, too.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "base/result.h"
#include "session/verify.h"

namespace smeltr::session {

// Copies the sound parts of `from` to `to`, which must not exist, and gives it an index.
// Returns the number of events in `to`.
Result<uint64_t> RepairFile(const std::filesystem::path& from, const std::filesystem::path& to);

struct RepairedSession {
  std::filesystem::path directory{};
  std::string session_id{};
  VerifiedSession before{};
  uint64_t event_count = 0;
  uint64_t lost_events = 0;  // As its metadata says it now: repair_lost_count.
};

// `before` is what VerifySession() has just said. Nothing is put in place before it was verified; kCorrupt
// when that fails. kUnavailable for a session that is still being recorded.
//
// A copy in `output`, which must not exist; empty: beside the session. It gets an id of its own.
Result<RepairedSession> RepairCopy(VerifiedSession before, const std::filesystem::path& output);
// Replaces the session's files, each at once, the metadata last. Interrupted, it can be done again.
Result<RepairedSession> RepairInPlace(VerifiedSession before);

}  // namespace smeltr::session
