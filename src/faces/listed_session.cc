#include "faces/listed_session.h"

#include <utility>

#include "session/retention.h"

namespace smeltr::faces {

PostMortemsBySource FindPostMortems(const std::vector<session::StoredSession>& sessions) {
  PostMortemsBySource found;
  for (const session::StoredSession& one : sessions) {
    const session::Metadata& metadata = one.metadata;
    if (metadata.kind == session::SessionKind::kPostMortem && !metadata.source_session_id.empty()) {
      found[metadata.source_session_id].push_back({one.short_id(), ReasonText(metadata)});
    }
  }
  return found;
}

ListedSession List(OpenedSession opened, const PostMortemsBySource& post_mortems) {
  ListedSession listed;
  listed.disk_bytes = session::DirectoryBytes(opened.stored.directory);
  listed.pinned = session::IsPinned(opened.stored.directory);
  const auto found = post_mortems.find(opened.stored.metadata.session_id);
  if (found != post_mortems.end()) listed.post_mortems = found->second;
  listed.opened = std::move(opened);
  return listed;
}

Result<ListedSession> Listed(const std::filesystem::path& sessions_directory, OpenedSession opened) {
  SMELTR_ASSIGN_OR_RETURN(const std::vector<session::StoredSession> stored,
                          session::ListSessions(sessions_directory));
  return List(std::move(opened), FindPostMortems(stored));
}

}  // namespace smeltr::faces
