#include "session/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

#include "util/file.h"

namespace smeltr::session {
namespace {

class PosixAppendFile : public AppendFile {
 public:
  PosixAppendFile(Fd fd, std::filesystem::path path) : fd_(std::move(fd)), path_(std::move(path)) {}

  Result<void> WriteAt(uint64_t offset, std::span<const std::byte> bytes) override {
    while (!bytes.empty()) {
      const ssize_t written = ::pwrite(fd_.get(), bytes.data(), bytes.size(), static_cast<off_t>(offset));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return std::unexpected(SystemError("write", path_, errno));
      if (written == 0) return std::unexpected(SystemError("write", path_, ENOSPC));
      bytes = bytes.subspan(static_cast<size_t>(written));
      offset += static_cast<uint64_t>(written);
    }
    return {};
  }

  bool ReadAt(uint64_t offset, std::span<std::byte> bytes) override {
    return ReadUpTo(fd_, offset, bytes) == bytes.size();
  }

  Result<void> Truncate(uint64_t size) override {
    int result;
    do {
      result = ::ftruncate(fd_.get(), static_cast<off_t>(size));
    } while (result != 0 && errno == EINTR);
    if (result != 0) return std::unexpected(SystemError("truncate", path_, errno));
    return {};
  }

  Result<void> Sync() override {
    if (::fdatasync(fd_.get()) != 0) return std::unexpected(SystemError("sync", path_, errno));
    return {};
  }

 private:
  Fd fd_;
  std::filesystem::path path_;
};

}  // namespace

Result<std::unique_ptr<AppendFile>> CreateAppendFile(const std::filesystem::path& path) {
  Fd fd(::open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!fd.valid()) return std::unexpected(SystemError("create", path, errno));
  return std::make_unique<PosixAppendFile>(std::move(fd), path);
}

Result<void> SyncDirectory(const std::filesystem::path& directory) {
  const std::filesystem::path opened = directory.empty() ? "." : directory;
  const Fd fd(::open(opened.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!fd.valid()) return std::unexpected(SystemError("open", opened, errno));
  // Some file systems cannot: no reason to fail.
  if (::fsync(fd.get()) != 0 && errno != EINVAL) return std::unexpected(SystemError("sync", opened, errno));
  return {};
}

size_t ReadUpTo(const Fd& fd, uint64_t offset, std::span<std::byte> bytes) {
  size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t count =
        ::pread(fd.get(), bytes.data() + done, bytes.size() - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    done += static_cast<size_t>(count);
  }
  return done;
}

}  // namespace smeltr::session
