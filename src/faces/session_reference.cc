#include "faces/session_reference.h"

#include <fmt/format.h>

#include <string>
#include <system_error>

#include "util/format.h"

namespace smeltr::faces {
namespace {

namespace fs = std::filesystem;

bool IsPath(std::string_view reference) {
  return reference.find('/') != std::string_view::npos || reference == "." || reference == "..";
}

Result<session::StoredSession> FindAt(const fs::path& given) {
  std::error_code error;
  fs::path path = fs::absolute(given, error).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  if (fs::is_directory(path, error)) {
    auto found = session::Resolve(path.parent_path(), path.filename().native());
    if (found.has_value() && found->directory.filename() == path.filename()) return found;
  }
  return Fail(ErrorCode::kNotFound, fmt::format("no session at {}", Printable(given.native())));
}

}  // namespace

Result<session::StoredSession> FindSession(const fs::path& sessions_directory, std::string_view reference) {
  return IsPath(reference) ? FindAt(fs::path(reference)) : session::Resolve(sessions_directory, reference);
}

Result<session::StoredSession> FindOwnSession(const fs::path& sessions_directory,
                                              std::string_view reference) {
  SMELTR_ASSIGN_OR_RETURN(session::StoredSession found, FindSession(sessions_directory, reference));
  std::error_code error;
  if (!fs::equivalent(found.directory.parent_path(), sessions_directory, error)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is not in {}", Printable(reference), Printable(sessions_directory.native())));
  }
  return found;
}

}  // namespace smeltr::faces
