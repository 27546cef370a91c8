// Sessions of the earlier Rust smeltr, read into sessions of ours. Their files are described in
// import_v1_stream.h, the events in import_v1_events.h; metadata.toml is TOML there too, with partly other
// keys.
//
// Everything that can be read is imported: a damaged events file costs what is damaged, a damaged
// metadata.toml the name and the command (id and start then come from the events and the directory's name).
// What was lost is in the notes, with its byte offset, and stays in the session's metadata.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

#include "base/result.h"
#include "session/import_target.h"

namespace smeltr::session {

struct V1Sessions {
  std::vector<std::filesystem::path> directories;  // By name, which is by start.
  size_t own_count = 0;                            // Beside them: sessions of this smeltr, nothing to import.
};

// `directory` itself, or those in it, or in its folder "sessions". An empty list when it has none; an error
// when it cannot be read.
Result<V1Sessions> FindV1Sessions(const std::filesystem::path& directory);

// One of them. The same session again (by its id) is kAlreadyThere, unless options.force. A directory inside
// options.sessions_directory, as after an upgrade, becomes a session of ours where it is; the earlier files
// stay in it, the metadata as metadata.v1.toml.
Result<ImportedSession> ImportV1Session(const std::filesystem::path& directory, const ImportOptions& options);

}  // namespace smeltr::session
