// Chrome traces as torch.profiler and JAX write them, read into sessions of ours.
//
// The file is read once, with memory that does not grow with it, whatever damage it has
// (import_trace_reader.h). Its events come in no order of time, so they are sorted on the way, on disk where
// they are many (import_sorter.h), and then become our events (import_trace_events.h). Times keep their ns.
//
// The session's id is made from the file's content, so that the same trace is recognised under any name.
#pragma once

#include <filesystem>
#include <string>

#include "base/result.h"
#include "session/import_target.h"

namespace smeltr::session {

// `name`: of the session; empty: the file's. The same content again is kAlreadyThere, unless options.force.
// kCorrupt for a file without a single event.
Result<ImportedSession> ImportTrace(const std::filesystem::path& file, const std::string& name,
                                    const ImportOptions& options);

}  // namespace smeltr::session
