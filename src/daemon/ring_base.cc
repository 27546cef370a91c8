#include "daemon/ring_base.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <memory>

#include "session/identity.h"
#include "util/file.h"

namespace smeltr::daemon {
namespace {

// Ring directories are flat. What else lies in one is not worth more descriptors than this.
constexpr int kDeepest = 16;
constexpr size_t kDashedUuidSize = 36;
constexpr int kDirectoryFlags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};

// The names in it, read before any of them is deleted.
Result<std::vector<std::string>> NamesIn(const Fd& directory, const std::filesystem::path& path) {
  const int fd = ::openat(directory.get(), ".", kDirectoryFlags);
  if (fd < 0) return std::unexpected(SystemError("list", path, errno));
  const std::unique_ptr<DIR, CloseDirectory> entries(::fdopendir(fd));
  if (entries == nullptr) {
    const int reason = errno;
    ::close(fd);
    return std::unexpected(SystemError("list", path, reason));
  }
  std::vector<std::string> names;
  while (const dirent* entry = ::readdir(entries.get())) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  return names;
}

bool IsRealDirectory(const Fd& parent, const std::string& name) {
  struct stat status{};
  return ::fstatat(parent.get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(status.st_mode);
}

// `path` is for messages only.
Result<void> RemoveAt(const Fd& parent, const std::string& name, const std::filesystem::path& path,
                      int levels_left) {
  if (!IsRealDirectory(parent, name)) {
    if (::unlinkat(parent.get(), name.c_str(), 0) == 0 || errno == ENOENT) return {};
    return std::unexpected(SystemError("remove", path, errno));
  }
  if (levels_left == 0) return std::unexpected(SystemError("remove", path, ELOOP));
  const Fd directory(::openat(parent.get(), name.c_str(), kDirectoryFlags));
  if (!directory.valid()) return std::unexpected(SystemError("remove", path, errno));
  SMELTR_ASSIGN_OR_RETURN(const std::vector<std::string> names, NamesIn(directory, path));
  for (const std::string& inner : names) {
    SMELTR_TRY(RemoveAt(directory, inner, path / inner, levels_left - 1));
  }
  if (::unlinkat(parent.get(), name.c_str(), AT_REMOVEDIR) == 0 || errno == ENOENT) return {};
  return std::unexpected(SystemError("remove", path, errno));
}

}  // namespace

bool IsSessionId(std::string_view text) {
  return text.size() == kDashedUuidSize && session::NormaliseUuid(text).has_value() &&
         std::ranges::none_of(text, [](char c) { return c >= 'A' && c <= 'F'; });
}

Result<Fd> OpenRingBase(const std::filesystem::path& base) {
  Fd fd(::open(base.c_str(), kDirectoryFlags));
  if (!fd.valid()) return std::unexpected(SystemError("use the directory", base, errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return std::unexpected(SystemError("inspect", base, errno));
  if (status.st_uid != ::geteuid()) {
    return Fail(ErrorCode::kPermission, fmt::format("{} belongs to another user", base.native()));
  }
  if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
    return Fail(ErrorCode::kPermission, fmt::format("others can write to {}", base.native()));
  }
  return fd;
}

bool HasRingDirectory(const std::filesystem::path& base, std::string_view session_id) {
  const auto directory = OpenRingBase(base);
  return directory.has_value() && IsSessionId(session_id) &&
         IsRealDirectory(*directory, std::string(session_id));
}

std::vector<std::string> ListRingDirectories(const std::filesystem::path& base) {
  const auto directory = OpenRingBase(base);
  if (!directory.has_value()) return {};
  std::vector<std::string> names = NamesIn(*directory, base).value_or(std::vector<std::string>());
  std::erase_if(names, [&](const std::string& name) {
    return !IsSessionId(name) || !IsRealDirectory(*directory, name);
  });
  return names;
}

Result<void> RemoveRingDirectory(const std::filesystem::path& base, std::string_view session_id) {
  if (!IsSessionId(session_id)) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("'{}' is no session's id", session_id.substr(0, kDashedUuidSize)));
  }
  const auto directory = OpenRingBase(base);
  if (!directory.has_value()) {
    if (directory.error().code() == ErrorCode::kNotFound) return {};
    return std::unexpected(directory.error());
  }
  const std::string name(session_id);
  // A link with a session's name is not ours to judge.
  struct stat status{};
  if (::fstatat(directory->get(), name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
      !S_ISDIR(status.st_mode)) {
    return Fail(ErrorCode::kInvalidArgument, fmt::format("{} is no directory", (base / name).native()));
  }
  return RemoveAt(*directory, name, base / name, kDeepest);
}

}  // namespace smeltr::daemon
