#include "session/store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include "base/clock.h"
#include "base/utf8.h"
#include "session/identity.h"
#include "util/file.h"
#include "util/format.h"
#include "util/process.h"

namespace smeltr::session {
namespace {

constexpr size_t kMaxNameCharacters = 200;
constexpr std::string_view kPostMortemPrefix = "post-mortem-";
constexpr size_t kShortIdDigits = 8;
constexpr size_t kMaxLabelBytes = 40;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kSpace = " \t\r\n\v\f";
  const size_t first = text.find_first_not_of(kSpace);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kSpace) - first + 1);
}

uint64_t StartOf(const StoredSession& session) {
  return ParseInstant(session.metadata.started_rfc3339).value_or(0);
}

// Nothing for directories that are no sessions.
std::optional<StoredSession> Load(const std::filesystem::path& directory) {
  const std::string name = directory.filename().native();
  if (name.starts_with('.')) return std::nullopt;
  StoredSession session{.directory = directory, .metadata = {}};
  if (Result<Metadata> metadata = ReadMetadata(directory)) {
    session.metadata = std::move(*metadata);
  } else {
    std::error_code ignored;
    const bool has_events = std::filesystem::exists(directory / kEventsFile, ignored);
    if (metadata.error().code() == ErrorCode::kNotFound && !has_events) return std::nullopt;
    session.metadata_readable = false;
    if (name.starts_with(kPostMortemPrefix)) session.metadata.kind = SessionKind::kPostMortem;
  }
  std::string& started = session.metadata.started_rfc3339;
  if (!ParseInstant(started)) started = InstantOfDirectoryName(name);
  return session;
}

Result<void> MakeDirectory(const std::filesystem::path& directory) {
  if (::mkdir(directory.c_str(), 0700) != 0) {
    return std::unexpected(SystemError("create", directory, errno));
  }
  return {};
}

// Words of lower-case letters and digits with single dashes between them.
std::string SafeLabel(std::string_view label) {
  std::string safe;
  for (char c : label.substr(0, kMaxLabelBytes)) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      safe += c;
    } else if (!safe.empty() && safe.back() != '-') {
      safe += '-';
    }
  }
  while (!safe.empty() && safe.back() == '-') safe.pop_back();
  return safe.empty() ? "request" : safe;
}

Result<void> FillIn(Metadata& metadata) {
  if (metadata.start_mono_ns == 0) metadata.start_mono_ns = MonotonicNowNs();
  if (metadata.started_rfc3339.empty()) metadata.started_rfc3339 = FormatUtc(WallNowNs());
  if (metadata.boot_id.empty()) metadata.boot_id = BootId();
  if (metadata.host.empty()) metadata.host = HostName();
  if (!ParseInstant(metadata.started_rfc3339)) {
    return Fail(ErrorCode::kInvalidArgument, "the session's start is not an RFC 3339 instant");
  }
  if (!metadata.session_id.empty() && !NormaliseUuid(metadata.session_id)) {
    return Fail(ErrorCode::kInvalidArgument, "the session's id is not a UUID");
  }
  return {};
}

// `sessions_directory`/<stamp>-<short id>, with an id that is free where none is given.
Result<StoredSession> CreateNamed(const std::filesystem::path& sessions_directory, std::string_view stamp,
                                  Metadata metadata) {
  SMELTR_TRY(MakePrivateDirectory(sessions_directory));
  const bool given_id = !metadata.session_id.empty();
  while (true) {
    if (!given_id) {
      SMELTR_ASSIGN_OR_RETURN(metadata.session_id, MakeUuid());
    }
    std::filesystem::path directory = sessions_directory / fmt::format("{}-{}", stamp, ShortId(metadata));
    const Result<void> made = MakeDirectory(directory);
    if (!made && made.error().code() == ErrorCode::kAlreadyExists && !given_id) continue;
    SMELTR_TRY(made);
    if (Result<void> written = WriteMetadata(directory, metadata); !written) {
      ::rmdir(directory.c_str());  // Nothing is in it.
      return std::unexpected(written.error());
    }
    return StoredSession{.directory = std::move(directory), .metadata = std::move(metadata)};
  }
}

}  // namespace

std::string StoredSession::short_id() const {
  if (!metadata.session_id.empty()) return ShortId(metadata);
  const std::string name = directory.filename().native();
  const std::string end = name.substr(name.size() - std::min(name.size(), kShortIdDigits));
  return end.size() == kShortIdDigits && IsHex(end) ? end : std::string();
}

Result<std::string> ValidateName(std::string_view name) {
  const std::string_view trimmed = Trim(name);
  size_t characters = 0;
  for (std::string_view rest = trimmed; !rest.empty(); ++characters) {
    const size_t bytes = Utf8CharacterBytes(rest);
    const auto first = static_cast<unsigned char>(rest[0]);
    // C1 controls are two bytes: C2 80 to C2 9F.
    const bool control = first < 0x20 || first == 0x7F ||
                         (first == 0xC2 && bytes == 2 && static_cast<unsigned char>(rest[1]) < 0xA0);
    if (bytes == 0) return Fail(ErrorCode::kInvalidArgument, "a session name must be UTF-8 text");
    if (control || first == '/') {
      return Fail(ErrorCode::kInvalidArgument, "a session name must have no control characters and no '/'");
    }
    rest.remove_prefix(bytes);
  }
  if (characters > kMaxNameCharacters) {
    return Fail(
        ErrorCode::kInvalidArgument,
        fmt::format("a session name has at most {} characters, this one {}", kMaxNameCharacters, characters));
  }
  const bool like_id = (trimmed.size() == kShortIdDigits && IsHex(trimmed)) || NormaliseUuid(trimmed) ||
                       IsDirectoryName(trimmed) || trimmed.starts_with(kPostMortemPrefix);
  if (like_id) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("the session name '{}' looks like a session id; choose another", trimmed));
  }
  return std::string(trimmed);
}

Result<StoredSession> CreateSession(const std::filesystem::path& sessions_directory, Metadata metadata) {
  SMELTR_TRY(FillIn(metadata));
  const std::string stamp = DirectoryStamp(ParseInstant(metadata.started_rfc3339).value_or(0));
  return CreateNamed(sessions_directory, stamp, std::move(metadata));
}

Result<StoredSession> CreatePostMortem(const std::filesystem::path& sessions_directory,
                                       std::string_view label, Metadata metadata) {
  metadata.kind = SessionKind::kPostMortem;
  SMELTR_TRY(FillIn(metadata));
  const std::string stamp =
      fmt::format("{}{}-{}", kPostMortemPrefix, SafeLabel(label), DirectoryStamp(WallNowNs()));
  return CreateNamed(sessions_directory, stamp, std::move(metadata));
}

Result<std::vector<StoredSession>> ListSessions(const std::filesystem::path& sessions_directory) {
  std::vector<StoredSession> sessions;
  std::error_code error;
  std::filesystem::directory_iterator entries(sessions_directory, error);
  if (error == std::errc::no_such_file_or_directory) return sessions;
  while (!error && entries != std::filesystem::directory_iterator()) {
    std::error_code ignored;
    if (entries->is_directory(ignored)) {
      if (std::optional<StoredSession> session = Load(entries->path()))
        sessions.push_back(std::move(*session));
    }
    entries.increment(error);
  }
  if (error) return std::unexpected(SystemError("list", sessions_directory, error.value()));
  std::ranges::sort(sessions, [](const StoredSession& a, const StoredSession& b) {
    const uint64_t start_a = StartOf(a);
    const uint64_t start_b = StartOf(b);
    if (start_a != start_b) return start_a > start_b;
    const bool about_a = a.metadata.kind == SessionKind::kPostMortem;
    const bool about_b = b.metadata.kind == SessionKind::kPostMortem;
    return about_a != about_b ? about_b : a.directory > b.directory;
  });
  return sessions;
}

}  // namespace smeltr::session
