// References to sessions: how a user names one. Declared in store.h.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "session/identity.h"
#include "session/store.h"
#include "util/edit_distance.h"
#include "util/format.h"

namespace smeltr::session {
namespace {

constexpr size_t kShortestPrefix = 4;
constexpr size_t kShownCandidates = 5;
constexpr size_t kShownNearest = 3;

std::string Lower(std::string_view text) {
  std::string lower(text);
  for (char& c : lower) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return lower;
}

std::string IdDigits(const StoredSession& session) {
  return NormaliseUuid(session.metadata.session_id).value_or(Lower(session.short_id()));
}

std::string Describe(const StoredSession& session) {
  const std::string id =
      session.short_id().empty() ? session.directory.filename().native() : session.short_id();
  const std::string name = Printable(Truncate(session.metadata.name, 40));
  return name.empty() ? id : fmt::format("{} ({})", id, name);
}

// How far `reference` is from what the session could be called; nothing when it is no likely slip.
std::optional<size_t> Distance(std::string_view reference, const StoredSession& session) {
  constexpr size_t kCompared = 64;
  const std::string wanted = Lower(reference.substr(0, kCompared));
  const size_t limit = std::max<size_t>(2, wanted.size() / 3);
  std::optional<size_t> nearest;
  for (const std::string& called : {Lower(session.metadata.name), Lower(session.short_id())}) {
    if (called.empty()) continue;
    const bool is_part = wanted.size() >= 3 && called.find(wanted) != std::string::npos;
    const size_t distance = is_part ? 1 : EditDistance(wanted, std::string_view(called).substr(0, kCompared));
    if (distance <= limit) nearest = std::min(distance, nearest.value_or(distance));
  }
  return nearest;
}

Error NoSessions(const std::filesystem::path& sessions_directory) {
  return {ErrorCode::kNotFound,
          fmt::format(
              "no sessions in {} yet (SMELTR_HOME decides where); record one with `smeltr record -- COMMAND`",
              sessions_directory.native())};
}

Error NotFound(std::string_view reference, const std::vector<StoredSession>& sessions) {
  // By distance, then newest first: the order of the list, which its elements' addresses have.
  std::vector<std::pair<size_t, const StoredSession*>> near;
  for (const StoredSession& session : sessions) {
    if (const std::optional<size_t> distance = Distance(reference, session)) {
      near.emplace_back(*distance, &session);
    }
  }
  std::ranges::sort(near);
  std::string text = fmt::format("no session '{}'", Printable(Truncate(reference, 60)));
  for (size_t i = 0; i < std::min(near.size(), kShownNearest); ++i) {
    text += (i == 0 ? "; nearest: " : ", ") + Describe(*near[i].second);
  }
  if (near.empty()) text += "; `smeltr sessions ls` lists them";
  return {ErrorCode::kNotFound, text};
}

Error Ambiguous(std::string_view reference, const std::vector<const StoredSession*>& found) {
  std::string text = fmt::format("'{}' could be {} sessions: ", reference, found.size());
  for (size_t i = 0; i < std::min(found.size(), kShownCandidates); ++i) {
    const std::string digits = IdDigits(*found[i]);
    text += fmt::format("{}{} started {}", i == 0 ? "" : ", ", digits.substr(0, 12),
                        found[i]->metadata.started_rfc3339.substr(0, 19));
    if (!found[i]->metadata.name.empty()) {
      text += fmt::format(" ({})", Printable(Truncate(found[i]->metadata.name, 24)));
    }
  }
  if (found.size() > kShownCandidates) text += ", ...";
  return {ErrorCode::kAmbiguous, text};
}

template <typename Matches>
std::vector<const StoredSession*> Select(const std::vector<StoredSession>& sessions, Matches matches) {
  std::vector<const StoredSession*> found;
  for (const StoredSession& session : sessions) {
    if (matches(session)) found.push_back(&session);
  }
  return found;
}

}  // namespace

Result<StoredSession> Resolve(const std::filesystem::path& sessions_directory, std::string_view reference) {
  if (reference.empty()) {
    return Fail(ErrorCode::kInvalidArgument, "an empty session reference; `smeltr sessions ls` lists them");
  }
  SMELTR_ASSIGN_OR_RETURN(const std::vector<StoredSession> sessions, ListSessions(sessions_directory));
  if (sessions.empty()) return std::unexpected(NoSessions(sessions_directory));

  auto found =
      Select(sessions, [&](const StoredSession& s) { return s.directory.filename().native() == reference; });
  if (!found.empty()) return *found[0];
  const std::string lower = Lower(reference);
  if (const std::optional<std::string> uuid = NormaliseUuid(reference)) {
    found = Select(sessions, [&](const StoredSession& s) { return IdDigits(s) == *uuid; });
    if (!found.empty()) return *found[0];
  }
  found = Select(sessions, [&](const StoredSession& s) { return Lower(s.short_id()) == lower; });
  if (found.size() == 1) return *found[0];
  if (found.size() > 1) return std::unexpected(Ambiguous(reference, found));
  // Newest first is the order of the list.
  found = Select(sessions, [&](const StoredSession& s) { return s.metadata.name == reference; });
  const auto original = std::ranges::find_if(
      found, [](const StoredSession* s) { return s->metadata.kind != SessionKind::kPostMortem; });
  if (original != found.end()) return **original;
  if (!found.empty()) return *found[0];
  if (reference.size() >= kShortestPrefix && IsHex(reference)) {
    found = Select(sessions, [&](const StoredSession& s) { return IdDigits(s).starts_with(lower); });
    if (found.size() == 1) return *found[0];
    if (found.size() > 1) return std::unexpected(Ambiguous(reference, found));
  }
  return std::unexpected(NotFound(reference, sessions));
}

Result<StoredSession> ResolveLast(const std::filesystem::path& sessions_directory, bool include_ambient) {
  SMELTR_ASSIGN_OR_RETURN(const std::vector<StoredSession> sessions, ListSessions(sessions_directory));
  const auto readable = Select(sessions, [](const StoredSession& s) { return s.metadata_readable; });
  if (!include_ambient) {
    for (const StoredSession* session : readable) {
      if (session->metadata.kind == SessionKind::kScoped) return *session;
    }
  }
  if (readable.empty()) return std::unexpected(NoSessions(sessions_directory));
  return *readable[0];
}

}  // namespace smeltr::session
