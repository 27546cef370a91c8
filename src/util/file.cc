#include "util/file.h"

#include <errno.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"

namespace smeltr {
namespace {

ErrorCode CodeOf(int errno_value) {
  switch (errno_value) {
    case ENOENT:
    case ENOTDIR:
      return ErrorCode::kNotFound;
    case EACCES:
    case EPERM:
    case EROFS:
      return ErrorCode::kPermission;
    case EEXIST:
      return ErrorCode::kAlreadyExists;
    case ENOSPC:
    case EDQUOT:
      return ErrorCode::kNoSpace;
    case ECONNREFUSED:
    case ECONNRESET:
    case EPIPE:
    case ETIMEDOUT:
      return ErrorCode::kUnavailable;
    case EINVAL:
    case ENAMETOOLONG:
      return ErrorCode::kInvalidArgument;
    default:
      return ErrorCode::kIo;
  }
}

bool WriteAll(int fd, std::string_view content) {
  while (!content.empty()) {
    const ssize_t written = ::write(fd, content.data(), content.size());
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    content.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Makes the rename itself durable. A file system that cannot sync a directory is no reason to fail.
void SyncDirectory(const std::filesystem::path& directory) {
  const Fd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid()) ::fsync(fd.get());
}

}  // namespace

Error SystemError(std::string_view action, const std::filesystem::path& path, int errno_value) {
  return {CodeOf(errno_value),
          fmt::format("cannot {} {}: {}", action, path.native(), ::strerror(errno_value))};
}

Result<Fd> OpenRegularFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a FIFO would wait for a writer, perhaps for ever.
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
  if (!fd.valid()) return std::unexpected(SystemError("open", path, errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return std::unexpected(SystemError("inspect", path, errno));
  if (!S_ISREG(status.st_mode)) {
    return Fail(ErrorCode::kCorrupt, fmt::format("{} is not a regular file", path.native()));
  }
  return fd;
}

Result<std::string> ReadFile(const std::filesystem::path& path, size_t max_bytes) {
  SMELTR_ASSIGN_OR_RETURN(const Fd fd, OpenRegularFile(path));
  std::string content;
  char buffer[16 * 1024];
  while (true) {
    const ssize_t count = ::read(fd.get(), buffer, sizeof(buffer));
    if (count < 0) {
      if (errno == EINTR) continue;
      return std::unexpected(SystemError("read", path, errno));
    }
    if (count == 0) return content;
    if (content.size() + static_cast<size_t>(count) > max_bytes) {
      return Fail(ErrorCode::kUnsupported,
                  fmt::format("{} is larger than the {} bytes expected at most", path.native(), max_bytes));
    }
    content.append(buffer, static_cast<size_t>(count));
  }
}

Result<void> WriteFileAtomically(const std::filesystem::path& path, std::string_view content, mode_t mode,
                                 FileSync sync) {
  std::string temporary = path.native() + ".XXXXXX";
  const Fd fd(::mkostemp(temporary.data(), O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(SystemError("create", path, errno));
  const bool written = WriteAll(fd.get(), content) && ::fchmod(fd.get(), mode) == 0 &&
                       (sync == FileSync::kNone || ::fsync(fd.get()) == 0) &&
                       ::rename(temporary.c_str(), path.c_str()) == 0;
  if (!written) {
    const int reason = errno;
    ::unlink(temporary.c_str());
    return std::unexpected(SystemError("write", path, reason));
  }
  if (sync == FileSync::kDisk) SyncDirectory(path.parent_path());
  return {};
}

Result<void> MakePrivateDirectory(const std::filesystem::path& path) {
  if (::mkdir(path.c_str(), 0700) != 0) {
    int reason = errno;
    if (reason == ENOENT && path.has_parent_path() && path.parent_path() != path) {
      SMELTR_TRY(MakePrivateDirectory(path.parent_path()));
      reason = ::mkdir(path.c_str(), 0700) == 0 ? 0 : errno;
    }
    if (reason != 0 && reason != EEXIST) return std::unexpected(SystemError("create", path, reason));
    if (reason == 0) return {};
  } else {
    return {};
  }
  // O_NOFOLLOW: somebody else's link in a shared directory must not choose where our files go.
  const Fd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(SystemError("use the directory", path, errno));
  struct stat status{};
  if (::fstat(fd.get(), &status) != 0) return std::unexpected(SystemError("inspect", path, errno));
  if (status.st_uid != ::geteuid()) {
    return Fail(ErrorCode::kPermission, fmt::format("{} belongs to another user", path.native()));
  }
  if ((status.st_mode & S_ISVTX) != 0) {
    return Fail(ErrorCode::kInvalidArgument,
                fmt::format("{} is shared by all users: choose a directory below it", path.native()));
  }
  if ((status.st_mode & 0077) == 0) return {};
  // An empty one is taken to be meant for us. One in use keeps its mode, and what we put into it has its own.
  std::error_code error;
  if (std::filesystem::is_empty(path, error)) {
    if (::fchmod(fd.get(), 0700) != 0) return std::unexpected(SystemError("make private", path, errno));
    return {};
  }
  if ((status.st_mode & 0022) != 0) {
    return Fail(ErrorCode::kPermission,
                fmt::format("others may write to {}: `chmod go-w` it or choose another", path.native()));
  }
  return {};
}

}  // namespace smeltr
