// A session and how it stands among the others: what it takes up, whether it is kept, its post-mortems.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "base/result.h"
#include "faces/opened_session.h"
#include "session/store.h"

namespace smeltr::faces {

struct PostMortemNote {
  std::string short_id;
  std::string reason;  // ReasonText()
};
// Newest first, by the full id of the session that they are about.
using PostMortemsBySource = std::map<std::string, std::vector<PostMortemNote>>;
PostMortemsBySource FindPostMortems(const std::vector<session::StoredSession>& sessions);

struct ListedSession {
  OpenedSession opened;
  uint64_t disk_bytes = 0;
  bool pinned = false;
  std::vector<PostMortemNote> post_mortems;
};
ListedSession List(OpenedSession opened, const PostMortemsBySource& post_mortems);
// The same for one alone.
Result<ListedSession> Listed(const std::filesystem::path& sessions_directory, OpenedSession opened);

}  // namespace smeltr::faces
