// Finds the chunks of a session file, by its footer or by scanning.
#pragma once

#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "session/footer.h"
#include "session/reader.h"

namespace smeltr::session {

struct Index {
  uint64_t file_bytes = 0;
  std::vector<StoredChunk> chunks;  // In file order.
  Damage damage;
};

// kCorrupt when it is no session file, kUnsupported when it needs a newer reader.
Result<Index> LoadIndex(const Fd& fd);

}  // namespace smeltr::session
